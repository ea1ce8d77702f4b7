import type { Finding } from '../types.ts';
import { type ValueSite, valueOfKey } from '../wgsl/instrument.ts';
import { formatValue } from './output-errors.ts';
import type { CheckedBuild } from './run-case.ts';

/** Floats differ by more than this between inputs, if they tell any. */
const minSpread = 1e-3;

/** The ranges of a kernel's numbers over all cases. */
export class ValueRanges {
  readonly #values: readonly ValueSite[];
  /** Place of the first number in the counts of a run, in words. */
  readonly #firstWord: number;
  readonly #words: Uint32Array;

  constructor(checked: CheckedBuild | undefined) {
    this.#values = checked?.values ?? [];
    this.#firstWord = 2 * ((checked?.sites.length ?? 0) + (checked?.conditions.length ?? 0));
    this.#words = new Uint32Array(2 * this.#values.length);
  }

  /** @param counts of a run of the checked build */
  add(counts: Uint32Array): void {
    for (let i = 0; i < this.#words.length; i++)
      this.#words[i] = Math.max(this.#words[i] as number, counts[this.#firstWord + i] ?? 0);
  }

  /** Numbers that had one value, or nearly, wherever they were computed; of nested ones the innermost. */
  findings(cases: number): Finding[] {
    const single = this.#values.map((site, i) => this.#singleValue(site, i));
    return this.#values.flatMap(({ from, to, text, line, column, length }, i): Finding[] => {
      const value = single[i];
      const isExplained = this.#values.some(
        (inner, n) => n !== i && single[n] !== undefined && inner.from >= from && inner.to <= to,
      );
      if (value === undefined || isExplained) return [];
      const message = `${text} was ${formatValue(value)} wherever it was computed in ${cases} cases, although it depends on ids, positions, sizes of steps or conditions: nothing says whether the kernel is right where it is something else`;
      return [{ code: 'untested_value', severity: 'warning', message, line, column, length }];
    });
  }

  /** Undefined where it was never computed. */
  #singleValue({ element }: ValueSite, i: number): number | undefined {
    const [largest, complement] = [this.#words[2 * i] as number, this.#words[2 * i + 1] as number];
    const smallest = ~complement >>> 0;
    if (largest === 0 && complement === 0) return undefined;
    const [low, high] = [valueOfKey(element, smallest), valueOfKey(element, largest)];
    const isFloat = element === 'f32' || element === 'f16';
    const isSingle = largest === smallest || (isFloat && Math.abs(high - low) < minSpread);
    return isSingle ? high : undefined;
  }
}
