import { randomInt } from 'node:crypto';
import type { Clock } from '../../clock.ts';

const perMs = 1_000_000;

export const runIdForm = /^r\d{1,20}$/;

/** `r<unix nanoseconds>`, each larger than the one before, also where the wall clock goes back. */
export class RunIds {
  readonly #clock: Clock;
  #last = 0n;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ids that were given out before this process. */
  startAfter(id: string | undefined): void {
    if (id !== undefined && runIdForm.test(id)) this.#last = BigInt(id.slice(1));
  }

  next(): string {
    // The clock counts milliseconds; what is below them keeps hosts on one database apart.
    const now = BigInt(this.#clock.now().getTime()) * BigInt(perMs) + BigInt(randomInt(perMs));
    this.#last = now > this.#last ? now : this.#last + 1n;
    return `r${this.#last}`;
  }
}
