import { sql } from 'kysely';
import type { GatewayStore } from '../store/index.ts';
import type { CacheBounds } from './types.ts';

/** An answer as it was sent. */
export interface CachedAnswer {
  /** A JSON body, or the text of a stream without its receipt. */
  readonly body: string;
  /** The model and the provider that answered. */
  readonly provider: string;
  readonly pricingIdentity: string;
  /** What the answer cost, in nanodollars. */
  readonly costNanodollars: bigint;
}

export interface FoundAnswer extends CachedAnswer {
  /** Time since it was stored. */
  readonly ageSecs: number;
}

/** Size limit of one answer, in characters. */
export const maxCachedChars = 4 * 1024 * 1024;
/** Part of the bounds that one gateway may write before it removes what is above them. */
const sweepFraction = 16;
const sweepIntervalMs = 60_000;

export interface ResponseCacheOptions {
  readonly store: GatewayStore;
  /** Undefined: nothing is stored. */
  readonly bounds: () => CacheBounds | undefined;
  /** Called when the database fails; the request is then served without the cache. */
  readonly onFault: (error: unknown) => void;
}

/**
 * Answers by the key of their request, in the database: gateways that share it share the answers. When there are more than the
 * bounds allow, the oldest ones of the accounts with the most are removed, so that no account pushes out the answers of
 * others. The bounds may be exceeded by a sixteenth for each gateway.
 */
export class ResponseCache {
  readonly #options: ResponseCacheOptions;
  #written = { entries: 0, bytes: 0 };
  #timer: NodeJS.Timeout | undefined;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: ResponseCacheOptions) {
    this.#options = options;
  }

  /** Begins to remove expired answers. */
  start(): void {
    this.#timer = setInterval(() => this.#run(() => this.sweep()), sweepIntervalMs).unref();
  }

  /** Finds an answer that is at most `ttlSecs` old; undefined also where the database fails. */
  async find(key: string, ttlSecs: number): Promise<FoundAnswer | undefined> {
    const { store, onFault } = this.#options;
    try {
      const row = await store.read((db) =>
        db.selectFrom('gateway_cache').selectAll().where('key', '=', key).executeTakeFirst(),
      );
      const now = store.now().getTime();
      if (!row || Date.parse(row.expires_at) <= now) return undefined;
      // The time to live may have been lowered since. Clocks of gateways differ.
      const ageSecs = Math.max(0, Math.floor((now - Date.parse(row.stored_at)) / 1000));
      if (ageSecs >= ttlSecs) return undefined;
      const { costNanodollars, ...answer } = JSON.parse(row.answer) as StoredAnswer;
      return { ...answer, costNanodollars: BigInt(costNanodollars), ageSecs };
    } catch (error) {
      onFault(error);
      return undefined;
    }
  }

  /** Stores an answer in the background. */
  put({ key, accountId, model, ttlSecs }: CacheEntry, { costNanodollars, ...answer }: CachedAnswer): void {
    const bounds = this.#options.bounds();
    const bytes = Buffer.byteLength(answer.body);
    if (!bounds || bytes > bounds.maxBytes || answer.body.length > maxCachedChars) return;
    const stored: StoredAnswer = { ...answer, costNanodollars: String(costNanodollars) };
    this.#run(async () => {
      const { store } = this.#options;
      const now = store.now().getTime();
      const row = {
        key,
        account_id: accountId,
        model,
        stored_at: new Date(now).toISOString(),
        expires_at: new Date(now + ttlSecs * 1000).toISOString(),
        bytes: BigInt(bytes),
        answer: JSON.stringify(stored),
      };
      const { key: _key, ...replaced } = row;
      await store.transaction((tx) =>
        tx
          .insertInto('gateway_cache')
          .values(row)
          .onConflict((conflict) => conflict.column('key').doUpdateSet(replaced))
          .execute(),
      );
      this.#written = { entries: this.#written.entries + 1, bytes: this.#written.bytes + bytes };
      if (
        this.#written.entries * sweepFraction >= bounds.maxEntries ||
        this.#written.bytes * sweepFraction >= bounds.maxBytes
      )
        await this.sweep();
    });
  }

  /** Removes expired answers, and the oldest ones of the largest accounts that are above the bounds. */
  async sweep(): Promise<void> {
    const { store, bounds } = this.#options;
    this.#written = { entries: 0, bytes: 0 };
    const { maxEntries, maxBytes } = bounds() ?? { maxEntries: 0, maxBytes: 0 };
    const surplus = sql<{ key: string }>`select key from (
        select key, row_number() over (order by own_place, stored_at desc, key) as place,
          sum(bytes) over (order by own_bytes, stored_at desc, key) as total
        from (
          select key, stored_at, bytes,
            row_number() over (partition by account_id order by stored_at desc, key) as own_place,
            sum(bytes) over (partition by account_id order by stored_at desc, key) as own_bytes
          from gateway_cache
        ) as counted
      ) as placed where place > ${maxEntries} or total > ${maxBytes}`;
    const { rows } = await store.read((db) => surplus.execute(db));
    const expired = await store.read((db) =>
      db.selectFrom('gateway_cache').select('key').where('expires_at', '<=', store.time()).execute(),
    );
    const keys = [...new Set([...rows, ...expired].map(({ key }) => key))];
    for (let from = 0; from < keys.length; from += maxAtOnce) {
      const some = keys.slice(from, from + maxAtOnce);
      await store.transaction((tx) => tx.deleteFrom('gateway_cache').where('key', 'in', some).execute());
    }
  }

  /** Waits until everything is stored. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
  }

  #run(task: () => Promise<void>): void {
    const running = task()
      .catch((error: unknown) => this.#options.onFault(error))
      .finally(() => this.#pending.delete(running));
    this.#pending.add(running);
  }
}

/** Statements have limits on their parameters. */
const maxAtOnce = 500;

export interface CacheEntry {
  readonly key: string;
  readonly accountId: string;
  readonly model: string;
  readonly ttlSecs: number;
}

/** `CachedAnswer` as JSON. */
interface StoredAnswer extends Omit<CachedAnswer, 'costNanodollars'> {
  readonly costNanodollars: string;
}
