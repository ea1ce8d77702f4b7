import { largestAnswer, tooLarge } from './failures.ts';

type Row = Record<string, unknown>;

/** Collects rows up to the maximum size of a result. */
export class Rows {
  readonly all: Row[] = [];
  #bytes = 0;

  /** @throws ObserveError over_budget */
  add(row: Readonly<Row>): void {
    const kept: Row = {};
    for (const [name, value] of Object.entries(row)) {
      kept[name] = typeof value === 'bigint' ? plain(value) : value;
      this.#bytes += 8 + (typeof value === 'string' ? value.length : 0);
    }
    this.all.push(kept);
    if (this.#bytes > largestAnswer) throw tooLarge(this.all.length);
  }
}

/** Integers beyond 2^53 become strings, because JSON numbers are exact only up to there. */
export const plain = (value: bigint): number | string =>
  Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
