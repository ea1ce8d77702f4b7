import { errorMessage } from '../../util/error-message.ts';
import type { RackId } from '../../watch/index.ts';
import type { ReviewEntry } from '../types.ts';
import type { ControlDatabase, ControlTx } from './database.ts';

export type NewEntry = Omit<ReviewEntry, 'seq' | 'at'>;

/** Limit of entries of each group (accesses, and changes of rules). The oldest entries are deleted. */
const most = 100_000;
/**
 * Entries that a client can cause in any number. They have a limit of their own, so that they do not displace entries
 * about rule changes.
 */
const accesses = ['read', 'ingest', 'refused', 'expired'] as const;
/** Limit of entries that wait for the disk. Beyond it refusals are dropped. */
const mostWaiting = 1000;
/** Time for which equal refusals are counted in one entry, so that repeated attempts do not displace other entries. */
const together = 60_000;

const isAccess = (act: ReviewEntry['act']): boolean => accesses.some((access) => access === act);

interface Waiting {
  readonly entry: NewEntry;
  readonly done: PromiseWithResolvers<void>;
}

/** The review: a log of actions on the recorder and of refused attempts. */
export class Review {
  readonly #control: ControlDatabase;
  readonly #onFault: (message: string) => void;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  /** Repeated refusals that are not written yet. */
  readonly #refused = new Map<string, { entry: NewEntry; count: number; readonly since: number }>();

  constructor(control: ControlDatabase, onFault: (message: string) => void) {
    this.#control = control;
    this.#onFault = onFault;
  }

  /** Writes entries in the transaction of the action they are about. */
  async add(tx: ControlTx, ...entries: readonly NewEntry[]): Promise<void> {
    const at = this.#control.time();
    for (const { by, act, rack, details } of entries)
      await tx
        .insertInto('review')
        .values({ at, by, act, rack, details: JSON.stringify(details) })
        .execute();
    const { seq } = await tx
      .selectFrom('review')
      .select((select) => select.fn.max('seq').as('seq'))
      .executeTakeFirstOrThrow();
    await tx
      .deleteFrom('review')
      .where('seq', '<=', seq - most)
      .where('act', 'in', accesses)
      .execute();
    if (entries.every(({ act }) => isAccess(act))) return;
    const rules = tx.selectFrom('review').select('seq').where('act', 'not in', accesses);
    const beyond = rules.orderBy('seq', 'desc').limit(1).offset(most);
    await tx.deleteFrom('review').where('act', 'not in', accesses).where('seq', '<=', beyond).execute();
  }

  /** Writes an entry. It is on disk when it resolves; concurrent entries share a transaction. */
  write(entry: NewEntry): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ entry, done });
    this.#writing ??= this.#writeAll();
    return done.promise;
  }

  /**
   * Records a refusal. The first of its kind is written at once; repetitions within a minute are counted in one more
   * entry.
   */
  refuse(entry: Omit<NewEntry, 'act'>): void {
    const now = performance.now();
    this.#flushRefused((since) => now - since > together);
    const key = JSON.stringify([entry.by, entry.rack, entry.details]);
    const known = this.#refused.get(key);
    if (known) {
      known.count++;
      return;
    }
    if (this.#refused.size >= mostWaiting || this.#waiting.length >= mostWaiting) return;
    const refused: NewEntry = { ...entry, act: 'refused' };
    this.#refused.set(key, { entry: refused, count: 0, since: now });
    this.writeLater(refused);
  }

  async list({
    rack,
    after = 0,
    limit,
  }: {
    readonly rack?: RackId | undefined;
    readonly after?: number | undefined;
    readonly limit: number;
  }): Promise<{ entries: ReviewEntry[]; next: number | null }> {
    this.#flushRefused(() => true);
    await this.#writing;
    const rows = await this.#control.read((db) => {
      const all = db
        .selectFrom('review')
        .selectAll()
        .where('seq', '>', after)
        .orderBy('seq')
        .limit(limit + 1);
      return (rack === undefined ? all : all.where('rack', '=', rack)).execute();
    });
    const entries = rows.slice(0, limit).map(({ details, ...row }) => ({
      ...row,
      details: JSON.parse(details) as Record<string, unknown>,
    }));
    return { entries, next: rows.length > limit ? (entries.at(-1)?.seq ?? null) : null };
  }

  async close(): Promise<void> {
    this.#flushRefused(() => true);
    await this.#writing;
  }

  #flushRefused(isOver: (since: number) => boolean): void {
    for (const [key, { entry, count, since }] of this.#refused) {
      if (!isOver(since)) continue;
      this.#refused.delete(key);
      if (count > 0) this.writeLater({ ...entry, details: { ...entry.details, again: count } });
    }
  }

  /** Writes an entry in the background. */
  writeLater(entry: NewEntry): void {
    this.write(entry).catch((error: unknown) =>
      this.#onFault(`could not write the review entry '${entry.act}': ${errorMessage(error)}`),
    );
  }

  async #writeAll(): Promise<void> {
    // Entries of the same tick join the transaction.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting;
      this.#waiting = [];
      try {
        await this.#control.transaction((tx) => this.add(tx, ...waiting.map(({ entry }) => entry)));
        for (const { done } of waiting) done.resolve();
      } catch (error) {
        for (const { done } of waiting) done.reject(error);
      }
    }
    this.#writing = undefined;
  }
}
