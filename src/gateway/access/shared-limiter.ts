import type { Connection } from '../../store/index.ts';
import type { GatewayStore } from '../store/index.ts';
import { type KeyLimits, limitError, createPermit, type LimitKind } from './limits.ts';
import { takeRequest, isEmpty, type RequestRate, requestRateOf } from './request-rate.ts';
import { createRateStatements } from './rate-statements.ts';
import type { Caller, Limiter } from './types.ts';

export interface SharedLimiterOptions {
  /** The clocks of all gateways on the database must agree within about a second. */
  readonly store: GatewayStore;
  readonly limits: KeyLimits;
  /** Called when a database operation fails in the background. */
  readonly onFault: (error: unknown) => void;
}

/** Lease of running requests, in ms: those of a dead gateway count for this long. Renewed every third of it. */
const leaseMs = 30_000;
/** Maximum number of keys and requests in one transaction, so that it stays short. */
const maxBatchSize = 500;

/** The state of a key on this gateway. */
interface KeyState {
  running: number;
  /** The bucket as last read. If it is empty by this value, requests are refused without a database query. */
  fullAt: number;
}

interface PendingRequest {
  readonly keyId: string;
  readonly resolvers: { resolve(): void; reject(error: unknown): void };
}

/** The decision of a transaction for a key. */
interface Decision {
  readonly admitted: number;
  readonly refused: LimitKind | undefined;
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
  readonly #onFault: (error: unknown) => void;
  readonly #statements: ReturnType<typeof createRateStatements>;
  readonly #keys = new Map<string, KeyState>();
  /** Keys whose number of running requests differs from the database. */
  readonly #changedKeys = new Set<string>();
  readonly #heartbeatTimer: NodeJS.Timeout;
  #pending: PendingRequest[] = [];
  #flushing: Promise<void> | undefined;

  constructor({ store, limits, onFault }: SharedLimiterOptions) {
    this.#store = store;
    this.#limits = limits;
    this.#onFault = onFault;
    this.#statements = createRateStatements(store.kind);
    this.#heartbeatTimer = setInterval(() => void this.heartbeat(), leaseMs / 3).unref();
  }

  async acquire({ key: { id } }: Caller): Promise<{ readonly release: () => void }> {
    const keyState = this.#keys.get(id);
    if (keyState !== undefined && keyState.running >= this.#limits.concurrency)
      throw limitError('concurrency', this.#limits);
    if (keyState !== undefined && isEmpty(this.#rate, keyState.fullAt, this.#nowMs() * 1000))
      throw limitError('rate', this.#limits);
    const { promise, ...resolvers } = Promise.withResolvers<void>();
    this.#pending.push({ keyId: id, resolvers });
    void this.#flush();
    await promise;
    return createPermit(() => this.#release(id));
  }

  /** Renews the leases of this gateway's running requests, and deletes those of gateways that died. */
  async heartbeat(): Promise<void> {
    const now = this.#nowMs();
    for (const [id, keyState] of this.#keys)
      if (keyState.running > 0) this.#changedKeys.add(id);
      else if (!isEmpty(this.#rate, keyState.fullAt, now * 1000) && !this.#changedKeys.has(id))
        this.#keys.delete(id);
    await this.#flush();
    await this.#store
      .batch((connection) => this.#statements.deleteExpired(connection, [{ expires_at: BigInt(now) }]))
      .catch(this.#onFault);
  }

  /** Writes the last changes to the database. Call it before the store is closed. */
  async close(): Promise<void> {
    clearInterval(this.#heartbeatTimer);
    await this.#flush();
  }

  /** A reload may change the limits. */
  get #rate(): RequestRate {
    return requestRateOf(this.#limits.requestsPerMinute);
  }

  #release(id: string): void {
    this.#getKeyState(id).running--;
    this.#changedKeys.add(id);
    void this.#flush();
  }

  #getKeyState(id: string): KeyState {
    let keyState = this.#keys.get(id);
    if (keyState === undefined) this.#keys.set(id, (keyState = { running: 0, fullAt: 0 }));
    return keyState;
  }

  #nowMs(): number {
    return this.#store.now().getTime();
  }

  /** Runs transactions one at a time while there is work; new work joins the next one. */
  #flush(): Promise<void> {
    this.#flushing ??= this.#runBatches();
    return this.#flushing;
  }

  async #runBatches(): Promise<void> {
    // Requests of the same turn of the event loop join this transaction.
    await Promise.resolve();
    let failed = false;
    while (this.#pending.length > 0 || (this.#changedKeys.size > 0 && !failed)) {
      const pending = this.#pending.splice(0, maxBatchSize);
      const changedKeys = [...this.#changedKeys].slice(0, maxBatchSize);
      for (const id of changedKeys) this.#changedKeys.delete(id);
      try {
        await this.#runBatch(pending, changedKeys);
      } catch (error) {
        // The write may have succeeded: the current numbers are written with the next request or heartbeat.
        for (const id of [...changedKeys, ...pending.map(({ keyId }) => keyId)]) this.#changedKeys.add(id);
        for (const { resolvers } of pending) resolvers.reject(error);
        if (pending.length === 0) this.#onFault(error);
        failed = true;
      }
    }
    // Without an `await` since the last check, so that no request is missed in between.
    this.#flushing = undefined;
  }

  async #runBatch(pending: readonly PendingRequest[], changedKeys: readonly string[]): Promise<void> {
    const requested = new Map<string, number>();
    for (const { keyId } of pending) requested.set(keyId, (requested.get(keyId) ?? 0) + 1);
    const running = new Map<string, number>();
    for (const id of [...changedKeys, ...requested.keys()]) running.set(id, this.#keys.get(id)?.running ?? 0);

    const decisions = await this.#store.batch(async (connection) => {
      const admissions = await this.#decideAdmissions(connection, requested, running);
      await this.#writeRunning(
        connection,
        [...running].map(([id, before]) => [id, before + (admissions.get(id)?.admitted ?? 0)]),
      );
      return admissions;
    });

    const admittedLeft = new Map([...decisions].map(([id, { admitted }]) => [id, admitted]));
    for (const { keyId, resolvers } of pending) {
      const keyState = this.#getKeyState(keyId);
      const { refused = 'rate', fullAt = 0 } = decisions.get(keyId) ?? {};
      keyState.fullAt = fullAt;
      const remaining = admittedLeft.get(keyId) ?? 0;
      admittedLeft.set(keyId, remaining - 1);
      if (remaining > 0) {
        keyState.running++;
        resolvers.resolve();
        continue;
      }
      resolvers.reject(limitError(refused, this.#limits));
    }
  }

  /** @param running requests of each key that run on this gateway */
  async #decideAdmissions(
    connection: Connection,
    requested: ReadonlyMap<string, number>,
    running: ReadonlyMap<string, number>,
  ): Promise<Map<string, Decision>> {
    const ids = [...requested.keys()].sort();
    const buckets = await this.#statements.lockBuckets(
      connection,
      ids.map((key_id) => ({ key_id, full_at: 0n })),
    );
    // Read after the lock: other gateways may have admitted requests while this one waited.
    const now = this.#nowMs();
    const { rows: others } = await this.#statements.runningElsewhere(
      connection,
      ids.map((key_id) => this.#toRunningRow(key_id, 0, now)),
    );
    const runningElsewhere = new Map(others.map((row) => [row.key_id, Number(row.running)]));
    const decisions = new Map<string, Decision>();
    for (const { key_id: id, full_at: fullAt } of buckets.rows) {
      const freePlaces = this.#limits.concurrency - (runningElsewhere.get(id) ?? 0) - (running.get(id) ?? 0);
      decisions.set(id, this.#admit(requested.get(id) ?? 0, freePlaces, Number(fullAt), now));
    }
    const admittedKeys = [...decisions].filter(([, { admitted }]) => admitted > 0);
    await this.#statements.writeBuckets(
      connection,
      admittedKeys.map(([key_id, { fullAt }]) => ({ key_id, full_at: BigInt(fullAt) })),
    );
    return decisions;
  }

  #admit(requested: number, freePlaces: number, before: number, now: number): Decision {
    let [admitted, fullAt] = [0, before];
    for (; admitted < requested; admitted++) {
      if (admitted >= freePlaces) return { admitted, refused: 'concurrency', fullAt };
      const fullAtAfter = takeRequest(this.#rate, fullAt, now * 1000);
      if (fullAtAfter === undefined) return { admitted, refused: 'rate', fullAt };
      fullAt = fullAtAfter;
    }
    return { admitted, refused: undefined, fullAt };
  }

  async #writeRunning(connection: Connection, counts: readonly (readonly [string, number])[]): Promise<void> {
    const expiresAt = this.#nowMs() + leaseMs;
    await this.#statements.writeRunning(
      connection,
      counts.map(([id, running]) => this.#toRunningRow(id, running, expiresAt)),
    );
  }

  #toRunningRow(key_id: string, running: number, expiresAt: number) {
    return {
      key_id,
      replica_id: this.#store.replicaId,
      running: BigInt(running),
      expires_at: BigInt(expiresAt),
    };
  }
}
