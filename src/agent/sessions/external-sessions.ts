import { type Clock, systemClock } from '../clock.ts';
import { AgentError } from '../errors.ts';
import { generateSecret, verifySecret, hashSecret } from '../../signing/secret.ts';
import type { Store, Tables, Tx } from '../../store/index.ts';
import type { LiveSessionSource, ReceiptStore, SignalStore } from '../services.ts';
import type { TokenCounts } from '../shapes/common.ts';
import type { ExternalEnd, ExternalHeartbeat, ExternalRegistration } from '../shapes/external-session.ts';
import type { Session } from '../shapes/session.ts';
import { generateExternalId } from './ids.ts';
import { isSameRegistration, toExternalRow, toExternalSession } from './external-row.ts';
import { Heartbeats } from './heartbeats.ts';

export interface ExternalSessionsOptions {
  readonly store: Store;
  readonly receipts: ReceiptStore;
  readonly signals: SignalStore;
  /** Heartbeat interval. A session is stale after two missed heartbeats, and lost after four. */
  readonly heartbeatSecs: number;
  /** Maximum open sessions. */
  readonly maxSessions: number;
  readonly clock?: Pick<Clock, 'monotonic'>;
  /** Called when closing a session failed; closing is retried. */
  readonly onFault: (error: unknown) => void;
}

interface SessionClosing {
  readonly outcome: ExternalEnd['outcome'];
  readonly closeReason: 'ended' | 'heartbeat_lost';
  readonly by: string;
  readonly exitCode?: number | undefined;
  readonly summary?: string | undefined;
}

const sweepIntervalMs = 1000;

/** Rolls back the closing of a session whose heartbeat arrived meanwhile. */
class HeartbeatRenewed extends Error {}

/** Sessions of external work, kept open by heartbeats. */
export class ExternalSessions implements LiveSessionSource {
  readonly #options: ExternalSessionsOptions;
  readonly #heartbeats: Heartbeats;
  /** Registrations in progress. */
  #registrationsInProgress = 0;
  #runningSweep: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ExternalSessionsOptions) {
    this.#options = options;
    this.#heartbeats = new Heartbeats(
      options.clock ?? systemClock,
      options.heartbeatSecs * 1000,
      sweepIntervalMs,
    );
  }

  /** Open sessions. */
  get size(): number {
    return this.#heartbeats.size;
  }

  /** Restores the sessions that were open when the host ended, with a full deadline each, and starts the sweep. */
  async start(): Promise<void> {
    for (const { id } of await this.#readOpen()) this.#heartbeats.record(id);
    this.#timer = setInterval(() => void this.sweep(), sweepIntervalMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#runningSweep;
  }

  /**
   * Registers a session. The secret is returned only here. A known idempotency key gives the same session a new secret.
   * @param by the registering client
   * @throws AgentError too_many; conflict when the key belongs to another registration or to an ended session
   */
  async register(
    request: ExternalRegistration,
    by: string,
  ): Promise<{ id: string; secret: string; heartbeat_secs: number }> {
    const { store, heartbeatSecs } = this.#options;
    const secret = generateSecret('external');
    const hash = hashSecret(secret);
    const id = (await this.#renewSecret(request, hash, by)) ?? (await this.#insertSession(request, hash, by));
    // Another request registered the same key at the same time.
    const sessionId = id ?? (await this.#renewSecret(request, hash, by));
    if (sessionId === undefined)
      throw new Error(`${store.endpointId}: the session of a colliding key does not exist`);
    this.#heartbeats.record(sessionId);
    return { id: sessionId, secret, heartbeat_secs: heartbeatSecs };
  }

  /**
   * Checks the secret of a session.
   * @param otherwise kind of the error for an id that is not an external session
   * @throws AgentError unauthorized, not_found, conflict
   */
  async authorize(
    id: string,
    secret: string | null,
    notExternalKind: 'conflict' | 'not_found',
  ): Promise<void> {
    if (secret === null) throw unauthorized();
    if (!id.startsWith('x'))
      throw notExternalKind === 'not_found'
        ? sessionNotFound(id)
        : new AgentError(
            'conflict',
            'not_external',
            `${id.slice(0, 80)} is not an external session; only those (x...) have heartbeats.`,
          );
    const row = await this.#readSecretHash(id).catch((error: unknown) => {
      // A heartbeat during a database failure counts, although it cannot be verified.
      this.#heartbeats.recordUnverified(id);
      throw error;
    });
    if (!row) throw sessionNotFound(id);
    if (!verifySecret(row.secret_hash, secret)) throw unauthorized();
  }

  /** Renews the deadline. @throws AgentError not_found when the session has ended */
  async heartbeat(id: string, heartbeat: ExternalHeartbeat): Promise<{ id: string; deadline_at: string }> {
    const { store, heartbeatSecs } = this.#options;
    // Counted before it is stored, so that a slow write does not close the session.
    this.#heartbeats.record(id);
    await store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('external_sessions')
        .select('tokens_claimed')
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .executeTakeFirst();
      if (!row) throw this.#sessionGoneError(id);
      const tokens = heartbeat.tokens && JSON.stringify(maxTokenCounts(row.tokens_claimed, heartbeat.tokens));
      const { numUpdatedRows } = await tx
        .updateTable('external_sessions')
        .set({
          beat_at: store.time(),
          ...(heartbeat.status === undefined ? {} : { status: heartbeat.status }),
          ...(heartbeat.last_event === undefined ? {} : { last_event: heartbeat.last_event }),
          ...(tokens === undefined ? {} : { tokens_claimed: tokens }),
        })
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) throw this.#sessionGoneError(id);
    });
    const deadline = store.now().getTime() + 2 * heartbeatSecs * 1000;
    return { id, deadline_at: new Date(deadline).toISOString() };
  }

  /** Ends a session. @throws AgentError not_found when it has already ended */
  async end(id: string, { outcome, exit_code, summary }: ExternalEnd): Promise<{ id: string; ended: true }> {
    await this.#options.store.transaction(async (tx) => {
      const closing = { outcome, closeReason: 'ended', by: `session:${id}` } as const;
      if (!(await this.#closeSession(tx, id, { ...closing, exitCode: exit_code, summary })))
        throw this.#sessionGoneError(id);
    });
    this.#heartbeats.forget(id);
    return { id, ended: true };
  }

  /** Open sessions, newest first. */
  async live(): Promise<Session[]> {
    return (await this.#readOpen()).map((row) => toExternalSession(row, this.#heartbeats.isStale(row.id)));
  }

  /** Closes lost sessions, each in its own transaction. */
  async sweep(): Promise<void> {
    this.#runningSweep ??= this.#sweepOnce().finally(() => {
      this.#runningSweep = undefined;
    });
    await this.#runningSweep;
  }

  async #sweepOnce(): Promise<void> {
    for (const id of this.#heartbeats.listLost()) {
      try {
        await this.#options.store.transaction(async (tx) => {
          await this.#closeSession(tx, id, { outcome: 'failed', closeReason: 'heartbeat_lost', by: 'host' });
          if (!this.#heartbeats.isLost(id)) throw new HeartbeatRenewed();
        });
        this.#heartbeats.forget(id);
      } catch (error) {
        if (!(error instanceof HeartbeatRenewed)) this.#options.onFault(error);
      }
    }
  }

  #readSecretHash(id: string): Promise<{ secret_hash: string } | undefined> {
    return this.#options.store.read((db) =>
      db
        .selectFrom('external_sessions')
        .select('secret_hash')
        .where('id', '=', id)
        .where('endpoint_id', '=', this.#options.store.endpointId)
        .where('ended_at', 'is', null)
        .executeTakeFirst(),
    );
  }

  #readOpen(): Promise<Tables['external_sessions'][]> {
    const { store } = this.#options;
    return store.read((db) =>
      db
        .selectFrom('external_sessions')
        .selectAll()
        .where('endpoint_id', '=', store.endpointId)
        .where('ended_at', 'is', null)
        .orderBy('started_at', 'desc')
        .orderBy('id', 'desc')
        .execute(),
    );
  }

  /** Gives the session of an idempotency key a new secret; undefined when there is no such session. */
  async #renewSecret(request: ExternalRegistration, hash: string, by: string): Promise<string | undefined> {
    const { store } = this.#options;
    const key = request.idempotency_key;
    if (key === undefined) return undefined;
    return await store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('external_sessions')
        .selectAll()
        .where('idempotency_key', '=', key)
        .executeTakeFirst();
      if (!row) return undefined;
      const conflictReason =
        row.endpoint_id !== store.endpointId || !isSameRegistration(row, request)
          ? 'was used for another registration'
          : row.ended_at !== null
            ? 'belongs to a session that has ended'
            : undefined;
      if (conflictReason !== undefined)
        throw new AgentError(
          'conflict',
          'idempotency_conflict',
          `This idempotency_key ${conflictReason}; register with another one.`,
        );
      await tx
        .updateTable('external_sessions')
        .set({ secret_hash: hash, beat_at: store.time() })
        .where('id', '=', row.id)
        .execute();
      await store.appendAct(tx, {
        verb: 'session.register',
        target: row.id,
        by,
        outcome: 'applied',
        reason: 'again',
      });
      return row.id;
    });
  }

  /** Inserts a session; undefined when another request with the same key came first. */
  async #insertSession(request: ExternalRegistration, hash: string, by: string): Promise<string | undefined> {
    const { store, maxSessions: limit } = this.#options;
    if (this.#heartbeats.size + this.#registrationsInProgress >= limit)
      throw new AgentError(
        'too_many',
        'too_many_sessions',
        `${limit} external sessions are open, which is the limit; end one, or start the host with --external-sessions N.`,
      );
    this.#registrationsInProgress += 1;
    try {
      const insertedId = await store.transaction(async (tx) => {
        const id = generateExternalId(store.now());
        const inserted = await tx
          .insertInto('external_sessions')
          .values(toExternalRow(request, { id, endpointId: store.endpointId, hash, at: store.time() }))
          .onConflict((conflict) => conflict.column('idempotency_key').doNothing())
          .returning('id')
          .executeTakeFirst();
        if (!inserted) return undefined;
        const details = JSON.stringify({ harness: request.harness });
        await store.appendAct(tx, { verb: 'session.register', target: id, by, outcome: 'applied', details });
        return id;
      });
      if (insertedId !== undefined) this.#heartbeats.record(insertedId);
      return insertedId;
    } finally {
      this.#registrationsInProgress -= 1;
    }
  }

  /** @returns false when it has already ended */
  async #closeSession(
    tx: Tx,
    id: string,
    { outcome, closeReason, by, exitCode, summary }: SessionClosing,
  ): Promise<boolean> {
    const { store, receipts, signals } = this.#options;
    const row = await tx
      .updateTable('external_sessions')
      .set({ ended_at: store.time(), outcome, close_reason: closeReason })
      .where('id', '=', id)
      .where('ended_at', 'is', null)
      .returningAll()
      .executeTakeFirst();
    if (!row) return false;
    await receipts.add(tx, {
      id,
      kind: 'external',
      outcome,
      started_at: row.started_at,
      ended_at: row.ended_at ?? store.time(),
      harness: row.harness,
      ...(row.client === null ? {} : { client: row.client }),
      ...(row.title === null ? {} : { title: row.title }),
      ...(row.cwd === null ? {} : { cwd: row.cwd }),
      ...(exitCode === undefined ? {} : { exit_code: exitCode }),
      ...(summary === undefined ? {} : { summary }),
      ...(row.tokens_claimed === null
        ? {}
        : { tokens_claimed: JSON.parse(row.tokens_claimed) as TokenCounts }),
      close_reason: closeReason,
    });
    const isLost = closeReason === 'heartbeat_lost';
    await store.appendAct(tx, {
      verb: isLost ? 'session.lost' : 'session.end',
      target: id,
      by,
      outcome: 'applied',
      ...(isLost ? { reason: closeReason } : {}),
    });
    await signals.emit(tx, isLost ? 'session.lost' : 'session.ended', { id, outcome, harness: row.harness });
    return true;
  }

  #sessionGoneError(id: string): AgentError {
    this.#heartbeats.forget(id);
    return sessionNotFound(id);
  }
}

/** Token claims are cumulative, so a heartbeat that arrives late must not lower them. */
function maxTokenCounts(before: string | null, now: TokenCounts): TokenCounts {
  if (before === null) return now;
  const { prompt, completion } = JSON.parse(before) as TokenCounts;
  return { prompt: Math.max(prompt, now.prompt), completion: Math.max(completion, now.completion) };
}

const unauthorized = () =>
  new AgentError(
    'unauthorized',
    'session_secret_required',
    'Send the secret that registering this session gave, in the header x-svc-session-secret.',
  );

const sessionNotFound = (id: string) =>
  new AgentError(
    'not_found',
    'unknown_session',
    `There is no open external session ${id.slice(0, 80)}; register an ended one again.`,
  );
