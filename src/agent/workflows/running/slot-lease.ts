import { raceAbort } from '../../../util/race-abort.ts';
import type { RunSlot } from './run-slot.ts';

/**
 * A segment's hold on the slot. While all of its work that is in progress waits for people, another run may have the
 * slot; the segment goes on when it has the slot again.
 */
export class SlotLease {
  readonly #slot: RunSlot;
  readonly #id: string;
  #isHeld = true;
  #isClosed = false;
  /** Attempts and gates in progress, and those of them that wait for a person. */
  #inProgress = 0;
  #waiting = 0;
  #acquiring: Promise<void> | undefined;
  #idle = Promise.withResolvers<void>();

  /** @param id of the run, which holds the slot */
  constructor(slot: RunSlot, id: string) {
    this.#slot = slot;
    this.#id = id;
  }

  /** Does work that needs the slot. */
  async use<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#inProgress += 1;
    try {
      await this.#acquire(signal);
      return await work();
    } finally {
      this.#inProgress -= 1;
      this.#releaseWhereAllWait();
      if (this.#inProgress === 0) {
        this.#idle.resolve();
        this.#idle = Promise.withResolvers<void>();
      }
    }
  }

  /** Waits for a person, within `use`. */
  async waitForPerson<T>(wait: () => Promise<T>, signal: AbortSignal): Promise<T> {
    this.#waiting += 1;
    this.#releaseWhereAllWait();
    let result: T;
    try {
      result = await wait();
    } finally {
      this.#waiting -= 1;
    }
    await this.#acquire(signal);
    return result;
  }

  /** Resolves when nothing is in progress. Rejects with the signal's reason. */
  async whenIdle(signal: AbortSignal): Promise<void> {
    while (this.#inProgress > 0) await raceAbort(this.#idle.promise, signal);
  }

  /** Ends the lease with the segment. */
  close(): void {
    this.#isClosed = true;
    if (this.#isHeld) this.#release();
  }

  #releaseWhereAllWait(): void {
    if (this.#isHeld && this.#inProgress > 0 && this.#waiting === this.#inProgress) this.#release();
  }

  #release(): void {
    this.#isHeld = false;
    this.#slot.release(this.#id);
  }

  async #acquire(signal: AbortSignal): Promise<void> {
    if (this.#isHeld) return;
    this.#acquiring ??= this.#slot.acquire(this.#id, signal).then(
      () => {
        this.#acquiring = undefined;
        this.#isHeld = true;
        if (this.#isClosed) this.#release();
      },
      (error: unknown) => {
        this.#acquiring = undefined;
        throw error;
      },
    );
    await this.#acquiring;
  }
}
