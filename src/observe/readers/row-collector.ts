import { maxResultBytes, resultTooLarge } from './errors.ts';

type Row = Record<string, unknown>;

/** Collects rows up to the maximum size of a result. */
export class RowCollector {
  readonly all: Row[] = [];
  #bytes = 0;

  /** @throws ObserveError over_budget */
  add(row: Readonly<Row>): void {
    const kept: Row = {};
    for (const [name, value] of Object.entries(row)) {
      kept[name] = typeof value === 'bigint' ? toJsonInteger(value) : value;
      this.#bytes += 8 + (typeof value === 'string' ? value.length : 0);
    }
    this.all.push(kept);
    if (this.#bytes > maxResultBytes) throw resultTooLarge(this.all.length);
  }
}

/** Integers beyond 2^53 become strings, because JSON numbers are exact only up to there. */
export const toJsonInteger = (value: bigint): number | string =>
  Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
