import { errorMessage } from '../../util/error-message.ts';
import type { RackId } from '../../tracing/index.ts';
import type { ReviewEntry } from '../types.ts';
import type { ControlDatabase, ControlTx } from './database.ts';

export type NewEntry = Omit<ReviewEntry, 'seq' | 'at'>;

/** Limit of entries of each group (accesses, and changes of rules). The oldest entries are deleted. */
const maxEntriesPerGroup = 100_000;
/**
 * Entries that a client can cause in any number. They have a limit of their own, so that they do not displace entries
 * about rule changes.
 */
const accessActs = ['read', 'ingest', 'refused', 'expired'] as const;
/** Limit of entries that wait for the disk. Beyond it refusals are dropped. */
const maxWaiting = 1000;
/** Time for which equal refusals are counted in one entry, so that repeated attempts do not displace other entries. */
const refusalWindowMs = 60_000;

const isAccess = (act: ReviewEntry['act']): boolean => accessActs.some((access) => access === act);

interface QueuedEntry {
  readonly entry: NewEntry;
  readonly done: PromiseWithResolvers<void>;
}

/** The review: a log of actions on the recorder and of refused attempts. */
export class Review {
  readonly #control: ControlDatabase;
  readonly #onFault: (message: string) => void;
  #queue: QueuedEntry[] = [];
  #writing: Promise<void> | undefined;
  /** Repeated refusals that are not written yet. */
  readonly #refusals = new Map<string, { entry: NewEntry; count: number; readonly since: number }>();

  constructor(control: ControlDatabase, onFault: (message: string) => void) {
    this.#control = control;
    this.#onFault = onFault;
  }

  /** Writes entries in the transaction of the action they are about. */
  async insert(tx: ControlTx, ...entries: readonly NewEntry[]): Promise<void> {
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
      .where('seq', '<=', seq - maxEntriesPerGroup)
      .where('act', 'in', accessActs)
      .execute();
    if (entries.every(({ act }) => isAccess(act))) return;
    const rules = tx.selectFrom('review').select('seq').where('act', 'not in', accessActs);
    const oldestKept = rules.orderBy('seq', 'desc').limit(1).offset(maxEntriesPerGroup);
    await tx.deleteFrom('review').where('act', 'not in', accessActs).where('seq', '<=', oldestKept).execute();
  }

  /** Writes an entry. It is on disk when it resolves; concurrent entries share a transaction. */
  write(entry: NewEntry): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#queue.push({ entry, done });
    this.#writing ??= this.#writeAll();
    return done.promise;
  }

  /**
   * Records a refusal. The first of its kind is written at once; repetitions within a minute are counted in one more
   * entry.
   */
  recordRefusal(entry: Omit<NewEntry, 'act'>): void {
    const now = performance.now();
    this.#flushRefusals((since) => now - since > refusalWindowMs);
    const key = JSON.stringify([entry.by, entry.rack, entry.details]);
    const known = this.#refusals.get(key);
    if (known) {
      known.count++;
      return;
    }
    if (this.#refusals.size >= maxWaiting || this.#queue.length >= maxWaiting) return;
    const refused: NewEntry = { ...entry, act: 'refused' };
    this.#refusals.set(key, { entry: refused, count: 0, since: now });
    this.writeInBackground(refused);
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
    this.#flushRefusals(() => true);
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
    this.#flushRefusals(() => true);
    await this.#writing;
  }

  #flushRefusals(isOver: (since: number) => boolean): void {
    for (const [key, { entry, count, since }] of this.#refusals) {
      if (!isOver(since)) continue;
      this.#refusals.delete(key);
      if (count > 0) this.writeInBackground({ ...entry, details: { ...entry.details, again: count } });
    }
  }

  /** Writes an entry in the background. */
  writeInBackground(entry: NewEntry): void {
    this.write(entry).catch((error: unknown) =>
      this.#onFault(`could not write the review entry '${entry.act}': ${errorMessage(error)}`),
    );
  }

  async #writeAll(): Promise<void> {
    // Entries of the same tick join the transaction.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const waiting = this.#queue;
      this.#queue = [];
      try {
        await this.#control.transaction((tx) => this.insert(tx, ...waiting.map(({ entry }) => entry)));
        for (const { done } of waiting) done.resolve();
      } catch (error) {
        for (const { done } of waiting) done.reject(error);
      }
    }
    this.#writing = undefined;
  }
}
