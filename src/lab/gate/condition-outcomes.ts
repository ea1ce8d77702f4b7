import type { Finding } from '../types.ts';
import type { ConditionSite } from '../wgsl/instrument.ts';
import type { CheckedBuild } from './run-case.ts';

/** Which outcomes of a kernel's conditions occurred in any case. */
export class ConditionOutcomes {
  readonly #conditions: readonly ConditionSite[];
  /** Place of the first condition in the counts of a run, in words. */
  readonly #firstWord: number;
  readonly #occurred: Uint8Array;

  constructor(checked: CheckedBuild | undefined) {
    this.#conditions = checked?.conditions ?? [];
    this.#firstWord = 2 * (checked?.sites.length ?? 0);
    this.#occurred = new Uint8Array(2 * this.#conditions.length);
  }

  /** @param counts of a run of the checked build */
  add(counts: Uint32Array): void {
    for (let i = 0; i < this.#occurred.length; i++) if (counts[this.#firstWord + i]) this.#occurred[i] = 1;
  }

  /** Conditions that were never true, or never false, of nested ones the innermost; and loops that never had two turns. */
  findings(cases: number): Finding[] {
    const isMissing = this.#conditions.map(
      ({ body }, i) => body === undefined && !(this.#occurred[2 * i] && this.#occurred[2 * i + 1]),
    );
    return this.#conditions.flatMap(
      ({ from, to, text, isOrdinary, body, line, column, length }, i): Finding[] => {
        if (body !== undefined) {
          // A loop without a first turn has a condition that was never true.
          if (!this.#occurred[2 * i] || this.#occurred[2 * i + 1]) return [];
          const message = `the loop with ${text} never had a second turn in ${cases} cases, so nothing says whether the kernel is right where it has`;
          return [{ code: 'untested_loop', severity: 'warning', message, line, column, length }];
        }
        const isExplained = this.#conditions.some(
          (inner, n) => n !== i && isMissing[n] && inner.from >= from && inner.to <= to,
        );
        if (!isMissing[i] || isOrdinary || isExplained) return [];
        const [wasFalse, wasTrue] = [this.#occurred[2 * i], this.#occurred[2 * i + 1]];
        const never = wasTrue ? 'false' : wasFalse ? 'true' : 'reached';
        const message = `${text} was never ${never} in ${cases} cases, so nothing says whether the kernel is right where it is: leave out what the op does not need`;
        return [{ code: 'untested_condition', severity: 'warning', message, line, column, length }];
      },
    );
  }
}
