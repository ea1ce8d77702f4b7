import { largestAnswer, tooLarge } from './failures.ts';

type Row = Record<string, unknown>;

/** Rows as they come, as long as they are no larger than an answer may be. */
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

/** JSON's numbers are exact up to 2^53; what is beyond is a text. */
export const plain = (value: bigint): number | string =>
  Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
