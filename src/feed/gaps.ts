import { randomUUID } from 'node:crypto';
import type { Surface } from './rows.ts';

/** Dropped rows. `overload`: rows came faster than they could be written. */
export interface Gap {
  readonly id: string;
  readonly surface: Surface;
  readonly reason: 'database_failed' | 'overload';
  /** Times of the oldest and the newest row. */
  from: string;
  to: string;
  rows: number;
}

/** Gaps that are not stored yet. */
export class GapList {
  #gaps = new Map<string, Gap>();

  get isEmpty(): boolean {
    return this.#gaps.size === 0;
  }

  add(surface: Surface, reason: Gap['reason'], at: string): void {
    this.#merge({ id: randomUUID(), surface, reason, from: at, to: at, rows: 1 });
  }

  take(): Gap[] {
    const current = [...this.#gaps.values()];
    this.#gaps = new Map();
    return current;
  }

  putBack(gaps: readonly Gap[]): void {
    for (const gap of gaps) this.#merge(gap);
  }

  #merge(gap: Gap): void {
    const key = `${gap.surface} ${gap.reason}`;
    const known = this.#gaps.get(key);
    if (!known) {
      this.#gaps.set(key, gap);
      return;
    }
    known.from = gap.from < known.from ? gap.from : known.from;
    known.to = gap.to > known.to ? gap.to : known.to;
    known.rows += gap.rows;
  }
}
