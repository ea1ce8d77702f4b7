import type { Clock } from '../clock.ts';

/**
 * Time of each session's last heartbeat, by the monotonic clock. Time in which this process was stopped or busy does
 * not count, because heartbeats could not arrive.
 */
export class Heartbeats {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #intervalMs: number;
  readonly #checkIntervalMs: number;
  readonly #lastBeats = new Map<string, number>();
  /** Time of the last `listLost` call. */
  #lastCheckAt: number;

  /** @param checkIntervalMs how often `listLost` is called */
  constructor(clock: Pick<Clock, 'monotonic'>, intervalMs: number, checkIntervalMs: number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
    this.#checkIntervalMs = checkIntervalMs;
    this.#lastCheckAt = clock.monotonic();
  }

  get size(): number {
    return this.#lastBeats.size;
  }

  record(id: string): void {
    this.#lastBeats.set(id, this.#clock.monotonic());
  }

  /** Counts a heartbeat whose secret could not be verified. */
  recordUnverified(id: string): void {
    if (this.#lastBeats.has(id)) this.record(id);
  }

  forget(id: string): void {
    this.#lastBeats.delete(id);
  }

  /** Whether two heartbeats are missing. */
  isStale(id: string): boolean {
    return this.#silenceMs(id) >= 2 * this.#intervalMs;
  }

  /** Whether four heartbeats are missing. */
  isLost(id: string): boolean {
    return this.#silenceMs(id) >= 4 * this.#intervalMs;
  }

  listLost(): string[] {
    const now = this.#clock.monotonic();
    const suspendedMs = now - this.#lastCheckAt - this.#checkIntervalMs;
    this.#lastCheckAt = now;
    if (suspendedMs > Math.max(this.#checkIntervalMs, this.#intervalMs / 2))
      for (const [id, at] of this.#lastBeats) this.#lastBeats.set(id, Math.min(now, at + suspendedMs));
    return [...this.#lastBeats.keys()].filter((id) => this.isLost(id));
  }

  #silenceMs(id: string): number {
    const lastBeatAt = this.#lastBeats.get(id);
    return lastBeatAt === undefined ? 0 : this.#clock.monotonic() - lastBeatAt;
  }
}
