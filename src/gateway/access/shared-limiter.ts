import type { Connection } from '../../store/index.ts';
import type { GatewayStore } from '../store/index.ts';
import { type KeyLimits, limitReached, placeOf, type Refused } from './limits.ts';
import { draw, isEmpty, type Pace, paceOf } from './pace.ts';
import { rateRows } from './rate-rows.ts';
import type { Caller, Limiter } from './types.ts';

export interface SharedLimiterOptions {
  /** The clocks of all gateways on the database must agree within about a second. */
  readonly store: GatewayStore;
  readonly limits: KeyLimits;
  /** Called when a database operation fails in the background. */
  readonly onFault: (error: unknown) => void;
}

/** Lease of running requests, in ms: those of a dead gateway count for this long. Renewed every third of it. */
const lease = 30_000;
/** Maximum number of keys and requests in one transaction, so that it stays short. */
const mostAtOnce = 500;

/** The state of a key on this gateway. */
interface Own {
  running: number;
  /** The bucket as last read. If it is empty by this value, requests are refused without a database query. */
  fullAt: number;
}

interface Entrant {
  readonly keyId: string;
  readonly settle: { resolve(): void; reject(error: unknown): void };
}

/** The decision of a transaction for a key. */
interface Decided {
  readonly admitted: number;
  readonly refused: Refused | undefined;
  readonly fullAt: number;
}

/**
 * A limiter that counts over all gateways of a database. Concurrent requests share a transaction, which locks their buckets
 * first, so that one gateway at a time decides about a key. Each gateway writes the absolute number of its running
 * requests, never a difference, so a lost or repeated write is corrected by the next one.
 */
export class SharedLimiter implements Limiter {
  readonly #store: GatewayStore;
  readonly #limits: KeyLimits;
  readonly #pace: Pace;
  readonly #onFault: (error: unknown) => void;
  readonly #rows: ReturnType<typeof rateRows>;
  readonly #keys = new Map<string, Own>();
  /** Keys whose number of running requests differs from the database. */
  readonly #changed = new Set<string>();
  readonly #beats: NodeJS.Timeout;
  #entrants: Entrant[] = [];
  #working: Promise<void> | undefined;

  constructor({ store, limits, onFault }: SharedLimiterOptions) {
    this.#store = store;
    this.#limits = limits;
    this.#pace = paceOf(limits.requestsPerMinute);
    this.#onFault = onFault;
    this.#rows = rateRows(store.kind);
    this.#beats = setInterval(() => void this.beat(), lease / 3).unref();
  }

  async enter({ key: { id } }: Caller): Promise<{ readonly leave: () => void }> {
    const own = this.#keys.get(id);
    if (own !== undefined && own.running >= this.#limits.concurrency)
      throw limitReached('concurrency', this.#limits);
    if (own !== undefined && isEmpty(this.#pace, own.fullAt, this.#ms() * 1000))
      throw limitReached('rate', this.#limits);
    const { promise, ...settle } = Promise.withResolvers<void>();
    this.#entrants.push({ keyId: id, settle });
    void this.#work();
    await promise;
    return placeOf(() => this.#leave(id));
  }

  /** Renews the leases of this gateway's running requests, and deletes those of gateways that died. */
  async beat(): Promise<void> {
    const now = this.#ms();
    for (const [id, own] of this.#keys)
      if (own.running > 0) this.#changed.add(id);
      else if (!isEmpty(this.#pace, own.fullAt, now * 1000) && !this.#changed.has(id)) this.#keys.delete(id);
    await this.#work();
    await this.#store
      .batch((connection) => this.#rows.forget(connection, [{ expires_at: BigInt(now) }]))
      .catch(this.#onFault);
  }

  /** Writes the last changes to the database. Call it before the store is closed. */
  async close(): Promise<void> {
    clearInterval(this.#beats);
    await this.#work();
  }

  #leave(id: string): void {
    this.#own(id).running--;
    this.#changed.add(id);
    void this.#work();
  }

  #own(id: string): Own {
    let own = this.#keys.get(id);
    if (own === undefined) this.#keys.set(id, (own = { running: 0, fullAt: 0 }));
    return own;
  }

  #ms(): number {
    return this.#store.now().getTime();
  }

  /** Runs transactions one at a time while there is work; new work joins the next one. */
  #work(): Promise<void> {
    this.#working ??= this.#rounds();
    return this.#working;
  }

  async #rounds(): Promise<void> {
    // Requests of the same turn of the event loop join this transaction.
    await Promise.resolve();
    let failed = false;
    while (this.#entrants.length > 0 || (this.#changed.size > 0 && !failed)) {
      const entrants = this.#entrants.splice(0, mostAtOnce);
      const changed = [...this.#changed].slice(0, mostAtOnce);
      for (const id of changed) this.#changed.delete(id);
      try {
        await this.#round(entrants, changed);
      } catch (error) {
        // The write may have succeeded: the current numbers are written with the next request or heartbeat.
        for (const id of [...changed, ...entrants.map(({ keyId }) => keyId)]) this.#changed.add(id);
        for (const { settle } of entrants) settle.reject(error);
        if (entrants.length === 0) this.#onFault(error);
        failed = true;
      }
    }
    // Without an `await` since the last check, so that no request is missed in between.
    this.#working = undefined;
  }

  async #round(entrants: readonly Entrant[], changed: readonly string[]): Promise<void> {
    const wanted = new Map<string, number>();
    for (const { keyId } of entrants) wanted.set(keyId, (wanted.get(keyId) ?? 0) + 1);
    const running = new Map<string, number>();
    for (const id of [...changed, ...wanted.keys()]) running.set(id, this.#keys.get(id)?.running ?? 0);

    const decisions = await this.#store.batch(async (connection) => {
      const decided = await this.#decide(connection, wanted, running);
      await this.#say(
        connection,
        [...running].map(([id, before]) => [id, before + (decided.get(id)?.admitted ?? 0)]),
      );
      return decided;
    });

    const places = new Map([...decisions].map(([id, { admitted }]) => [id, admitted]));
    for (const { keyId, settle } of entrants) {
      const own = this.#own(keyId);
      const { refused = 'rate', fullAt = 0 } = decisions.get(keyId) ?? {};
      own.fullAt = fullAt;
      const left = places.get(keyId) ?? 0;
      places.set(keyId, left - 1);
      if (left > 0) {
        own.running++;
        settle.resolve();
        continue;
      }
      settle.reject(limitReached(refused, this.#limits));
    }
  }

  /** @param running requests of each key that run on this gateway */
  async #decide(
    connection: Connection,
    wanted: ReadonlyMap<string, number>,
    running: ReadonlyMap<string, number>,
  ): Promise<Map<string, Decided>> {
    const ids = [...wanted.keys()].sort();
    const buckets = await this.#rows.take(
      connection,
      ids.map((key_id) => ({ key_id, full_at: 0n })),
    );
    // Read after the lock: other gateways may have admitted requests while this one waited.
    const now = this.#ms();
    const { rows: others } = await this.#rows.elsewhere(
      connection,
      ids.map((key_id) => this.#row(key_id, 0, now)),
    );
    const elsewhere = new Map(others.map((row) => [row.key_id, Number(row.running)]));
    const decided = new Map<string, Decided>();
    for (const { key_id: id, full_at: fullAt } of buckets.rows) {
      const room = this.#limits.concurrency - (elsewhere.get(id) ?? 0) - (running.get(id) ?? 0);
      decided.set(id, this.#letIn(wanted.get(id) ?? 0, room, Number(fullAt), now));
    }
    const drawn = [...decided].filter(([, { admitted }]) => admitted > 0);
    await this.#rows.fill(
      connection,
      drawn.map(([key_id, { fullAt }]) => ({ key_id, full_at: BigInt(fullAt) })),
    );
    return decided;
  }

  #letIn(wanted: number, room: number, before: number, now: number): Decided {
    let [admitted, fullAt] = [0, before];
    for (; admitted < wanted; admitted++) {
      if (admitted >= room) return { admitted, refused: 'concurrency', fullAt };
      const after = draw(this.#pace, fullAt, now * 1000);
      if (after === undefined) return { admitted, refused: 'rate', fullAt };
      fullAt = after;
    }
    return { admitted, refused: undefined, fullAt };
  }

  async #say(connection: Connection, counts: readonly (readonly [string, number])[]): Promise<void> {
    const expiresAt = this.#ms() + lease;
    await this.#rows.say(
      connection,
      counts.map(([id, running]) => this.#row(id, running, expiresAt)),
    );
  }

  #row(key_id: string, running: number, expiresAt: number) {
    return {
      key_id,
      replica_id: this.#store.replicaId,
      running: BigInt(running),
      expires_at: BigInt(expiresAt),
    };
  }
}
