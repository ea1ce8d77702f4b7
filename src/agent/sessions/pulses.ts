import type { Clock } from '../clock.ts';

/**
 * Time of each session's last heartbeat, by the monotonic clock. Time in which this process was stopped or busy does
 * not count, because heartbeats could not arrive.
 */
export class Pulses {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #intervalMs: number;
  readonly #lookMs: number;
  readonly #beats = new Map<string, number>();
  /** Time of the last `listLost` call. */
  #looked: number;

  /** @param checkIntervalMs how often `listLost` is called */
  constructor(clock: Pick<Clock, 'monotonic'>, intervalMs: number, lookMs: number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#lookMs = lookMs;
    this.#looked = clock.monotonic();
  }

  get size(): number {
    return this.#beats.size;
  }

  beat(id: string): void {
    this.#beats.set(id, this.#clock.monotonic());
  }

  /** Counts a heartbeat whose secret could not be verified. */
  excuse(id: string): void {
    if (this.#beats.has(id)) this.beat(id);
  }

  forget(id: string): void {
    this.#beats.delete(id);
  }

  /** Whether two heartbeats are missing. */
  isStale(id: string): boolean {
    return this.#silence(id) >= 2 * this.#intervalMs;
  }

  /** Whether four heartbeats are missing. */
  isLost(id: string): boolean {
    return this.#silence(id) >= 4 * this.#intervalMs;
  }

  lost(): string[] {
    const now = this.#clock.monotonic();
    const absent = now - this.#looked - this.#lookMs;
    this.#looked = now;
    if (absent > Math.max(this.#lookMs, this.#intervalMs / 2))
      for (const [id, at] of this.#beats) this.#beats.set(id, Math.min(now, at + absent));
    return [...this.#beats.keys()].filter((id) => this.isLost(id));
  }

  #silence(id: string): number {
    const at = this.#beats.get(id);
    return at === undefined ? 0 : this.#clock.monotonic() - at;
  }
}
