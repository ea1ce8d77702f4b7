import { randomInt } from 'node:crypto';
import type { Clock } from '../../clock.ts';

const nanosPerMs = 1_000_000;

export const runIdPattern = /^r\d{1,20}$/;

/** Generates run ids: `r<unix nanoseconds>`, strictly increasing even when the wall clock goes back. */
export class RunIdGenerator {
  readonly #clock: Clock;
  #last = 0n;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sets the newest id of previous processes. */
  startAfter(id: string | undefined): void {
    if (id !== undefined && runIdPattern.test(id)) this.#last = BigInt(id.slice(1));
  }

  next(): string {
    // The clock has milliseconds; the random rest avoids collisions between hosts on one database.
    const now = BigInt(this.#clock.now().getTime()) * BigInt(nanosPerMs) + BigInt(randomInt(nanosPerMs));
    this.#last = now > this.#last ? now : this.#last + 1n;
    return `r${this.#last}`;
  }
}
