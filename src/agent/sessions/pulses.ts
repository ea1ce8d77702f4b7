import type { Clock } from '../clock.ts';

/**
 * When each session was last heard of, by the clock that never jumps. Time in which this process did not run itself
 * (stopped, or busy) counts for nobody: their heartbeats could not be heard.
 */
export class Pulses {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #intervalMs: number;
  readonly #lookMs: number;
  readonly #beats = new Map<string, number>();
  /** When it was last looked. */
  #looked: number;

  /** @param lookMs how often `lost` is asked */
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

  /** A heartbeat that could not be taken down, and so could not be told from a stranger's either. */
  excuse(id: string): void {
    if (this.#beats.has(id)) this.beat(id);
  }

  forget(id: string): void {
    this.#beats.delete(id);
  }

  /** Two heartbeats are missing. */
  isStale(id: string): boolean {
    return this.#silence(id) >= 2 * this.#intervalMs;
  }

  /** Four heartbeats are missing. */
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
