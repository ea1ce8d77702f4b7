import type { WireError } from '../../wires/core/error.ts';
import type { Connection } from '../../store/index.ts';
import type { GatewayStore } from '../store/index.ts';
import { type KeyLimits, limitError, limitsOf, createPermit, type LimitKind, type Permit } from './limits.ts';
import { takeRequest, isEmpty, requestRateOf, requestWait } from './request-rate.ts';
import { createRateStatements } from './rate-statements.ts';
import { isSpent, takeTokens, tokenWait } from './token-rate.ts';
import type { Caller, Limiter } from './types.ts';

export interface SharedLimiterOptions {
  /** The clocks of all gateways on the database must agree within about a second. */
  readonly store: GatewayStore;
  /** The limits of keys without their own. */
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
  /** The buckets as last read. If one is empty by this value, requests are refused without a database query. */
  fullAt: number;
  tokensFullAt: number;
  /** The limits of the last request. */
  limits: KeyLimits;
}

interface PendingRequest {
  readonly keyId: string;
  readonly limits: KeyLimits;
  readonly estimatedTokens: number;
  readonly resolvers: { resolve(): void; reject(error: unknown): void };
}

/** The decision of a transaction for a key. */
interface Decision {
  readonly admitted: number;
  readonly refused: LimitKind | undefined;
  readonly fullAt: number;
  readonly tokensFullAt: number;
}

/** Tokens that are not in the database yet: negative where an estimate was too high. */
interface PendingTokens {
  readonly tokensPerMinute: number;
  tokens: number;
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
  readonly #tokens = new Map<string, PendingTokens>();
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

  async acquire({ key }: Caller, estimatedTokens = 0): Promise<Permit> {
    const { id } = key;
    const limits = limitsOf(key, this.#limits);
    const keyState = this.#keys.get(id);
    if (keyState !== undefined) {
      const now = this.#nowMs() * 1000;
      if (keyState.running >= limits.concurrency) throw limitError('concurrency', limits);
      if (limits.tokensPerMinute !== undefined && isSpent(keyState.tokensFullAt, now))
        throw refusalOf('tokens', limits, keyState, now);
      if (isEmpty(requestRateOf(limits.requestsPerMinute), keyState.fullAt, now))
        throw refusalOf('rate', limits, keyState, now);
    }
    const { promise, ...resolvers } = Promise.withResolvers<void>();
    this.#pending.push({ keyId: id, limits, estimatedTokens, resolvers });
    void this.#flush();
    await promise;
    return createPermit(
      () => this.#release(id),
      (tokens) => this.#countTokens(id, limits.tokensPerMinute, tokens - estimatedTokens),
    );
  }

  /** Renews the leases of this gateway's running requests, and deletes those of gateways that died. */
  async heartbeat(): Promise<void> {
    const now = this.#nowMs();
    for (const [id, keyState] of this.#keys)
      if (keyState.running > 0) this.#changedKeys.add(id);
      else if (!isLimited(keyState, now * 1000) && !this.#changedKeys.has(id)) this.#keys.delete(id);
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

  #release(id: string): void {
    this.#getKeyState(id).running--;
    this.#changedKeys.add(id);
    void this.#flush();
  }

  #countTokens(id: string, tokensPerMinute: number | undefined, tokens: number): void {
    if (tokensPerMinute === undefined || tokens === 0) return;
    this.#tokens.set(id, { tokensPerMinute, tokens: tokens + (this.#tokens.get(id)?.tokens ?? 0) });
    this.#changedKeys.add(id);
    void this.#flush();
  }

  #getKeyState(id: string): KeyState {
    let keyState = this.#keys.get(id);
    if (keyState === undefined)
      this.#keys.set(id, (keyState = { running: 0, fullAt: 0, tokensFullAt: 0, limits: this.#limits }));
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
    const requested = new Map<string, PendingRequest[]>();
    for (const request of pending)
      requested.set(request.keyId, [...(requested.get(request.keyId) ?? []), request]);
    const running = new Map<string, number>();
    for (const id of [...changedKeys, ...requested.keys()]) running.set(id, this.#keys.get(id)?.running ?? 0);
    // If the write fails, its tokens are lost: written twice, they would refuse requests that are within the limit.
    const tokens = new Map([...this.#tokens].filter(([id]) => running.has(id)));
    for (const id of tokens.keys()) this.#tokens.delete(id);

    const decisions = await this.#store.batch(async (connection) => {
      const admissions = await this.#decideAdmissions(connection, requested, running, tokens);
      await this.#writeRunning(
        connection,
        [...running].map(([id, before]) => [id, before + (admissions.get(id)?.admitted ?? 0)]),
      );
      return admissions;
    });

    for (const [id, { fullAt, tokensFullAt }] of decisions)
      Object.assign(this.#getKeyState(id), { fullAt, tokensFullAt });
    const admittedLeft = new Map([...decisions].map(([id, { admitted }]) => [id, admitted]));
    for (const { keyId, limits, resolvers } of pending) {
      const keyState = this.#getKeyState(keyId);
      keyState.limits = limits;
      const remaining = admittedLeft.get(keyId) ?? 0;
      admittedLeft.set(keyId, remaining - 1);
      if (remaining > 0) {
        keyState.running++;
        resolvers.resolve();
        continue;
      }
      const kind = decisions.get(keyId)?.refused ?? 'rate';
      resolvers.reject(refusalOf(kind, limits, keyState, this.#nowMs() * 1000));
    }
  }

  /** @param running requests of each key that run on this gateway */
  async #decideAdmissions(
    connection: Connection,
    requested: ReadonlyMap<string, readonly PendingRequest[]>,
    running: ReadonlyMap<string, number>,
    tokens: ReadonlyMap<string, PendingTokens>,
  ): Promise<Map<string, Decision>> {
    const ids = [...new Set([...requested.keys(), ...tokens.keys()])].sort();
    const buckets = await this.#statements.lockBuckets(
      connection,
      ids.map((key_id) => ({ key_id, full_at: 0n, tokens_full_at: 0n })),
    );
    // Read after the lock: other gateways may have admitted requests while this one waited.
    const now = this.#nowMs();
    const { rows: others } = await this.#statements.runningElsewhere(
      connection,
      [...requested.keys()].map((key_id) => this.#toRunningRow(key_id, 0, now)),
    );
    const runningElsewhere = new Map(others.map((row) => [row.key_id, Number(row.running)]));
    const decisions = new Map<string, Decision>();
    for (const row of buckets.rows) {
      const id = row.key_id;
      const bucket = { fullAt: Number(row.full_at), tokensFullAt: Number(row.tokens_full_at) };
      const used = tokens.get(id);
      if (used)
        bucket.tokensFullAt = takeTokens(used.tokensPerMinute, bucket.tokensFullAt, now * 1000, used.tokens);
      const runningNow = (runningElsewhere.get(id) ?? 0) + (running.get(id) ?? 0);
      decisions.set(id, admit(requested.get(id) ?? [], runningNow, bucket, now * 1000));
    }
    const changed = [...decisions].filter(([id, { admitted }]) => admitted > 0 || tokens.has(id));
    await this.#statements.writeBuckets(
      connection,
      changed.map(([key_id, { fullAt, tokensFullAt }]) => ({
        key_id,
        full_at: BigInt(fullAt),
        tokens_full_at: BigInt(tokensFullAt),
      })),
    );
    return decisions;
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

/** Admits the requests of a key in their order, until one exceeds a limit. @param now in microseconds */
function admit(
  requests: readonly PendingRequest[],
  running: number,
  { fullAt, tokensFullAt }: Pick<Decision, 'fullAt' | 'tokensFullAt'>,
  now: number,
): Decision {
  let bucket = { fullAt, tokensFullAt };
  for (const [admitted, { limits, estimatedTokens }] of requests.entries()) {
    const { concurrency, requestsPerMinute, tokensPerMinute } = limits;
    if (running + admitted >= concurrency) return { admitted, refused: 'concurrency', ...bucket };
    if (tokensPerMinute !== undefined && isSpent(bucket.tokensFullAt, now))
      return { admitted, refused: 'tokens', ...bucket };
    const fullAtAfter = takeRequest(requestRateOf(requestsPerMinute), bucket.fullAt, now);
    if (fullAtAfter === undefined) return { admitted, refused: 'rate', ...bucket };
    bucket = {
      fullAt: fullAtAfter,
      tokensFullAt:
        tokensPerMinute === undefined || estimatedTokens === 0
          ? bucket.tokensFullAt
          : takeTokens(tokensPerMinute, bucket.tokensFullAt, now, estimatedTokens),
    };
  }
  return { admitted: requests.length, refused: undefined, ...bucket };
}

/** @param now in microseconds */
function refusalOf(
  kind: LimitKind,
  limits: KeyLimits,
  { fullAt, tokensFullAt }: Pick<KeyState, 'fullAt' | 'tokensFullAt'>,
  now: number,
): WireError {
  if (kind === 'concurrency') return limitError(kind, limits);
  const wait =
    kind === 'tokens'
      ? tokenWait(tokensFullAt, now)
      : requestWait(requestRateOf(limits.requestsPerMinute), fullAt, now);
  return limitError(kind, limits, wait);
}

/** Whether a key has an empty bucket. @param now in microseconds */
const isLimited = ({ fullAt, tokensFullAt, limits }: KeyState, now: number): boolean =>
  isEmpty(requestRateOf(limits.requestsPerMinute), fullAt, now) ||
  (limits.tokensPerMinute !== undefined && isSpent(tokensFullAt, now));
