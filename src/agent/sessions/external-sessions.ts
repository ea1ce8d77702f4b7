import { type Clock, systemClock } from '../clock.ts';
import { AgentError } from '../errors.ts';
import { newSecret, secretFits, secretHash } from '../../signing/secret.ts';
import type { Store, Tables, Tx } from '../../store/index.ts';
import type { LiveRows, Receipts, Signals } from '../services.ts';
import type { TokenCounts } from '../shapes/common.ts';
import type { ExternalEnd, ExternalHeartbeat, ExternalRegistration } from '../shapes/external-session.ts';
import type { Session } from '../shapes/session.ts';
import { newExternalId } from './ids.ts';
import { sameRegistration, toRow, toSession } from './external-row.ts';
import { Pulses } from './pulses.ts';

export interface ExternalSessionsOptions {
  readonly store: Store;
  readonly receipts: Receipts;
  readonly signals: Signals;
  /** Heartbeat interval. A session is stale after two missed heartbeats, and lost after four. */
  readonly heartbeatSecs: number;
  /** Maximum open sessions. */
  readonly most: number;
  readonly clock?: Pick<Clock, 'monotonic'>;
  /** Called when closing a session failed; closing is retried. */
  readonly onFault: (error: unknown) => void;
}

interface Closing {
  readonly outcome: ExternalEnd['outcome'];
  readonly closeReason: 'ended' | 'heartbeat_lost';
  readonly by: string;
  readonly exitCode?: number | undefined;
  readonly summary?: string | undefined;
}

const sweepMs = 1000;

/** Rolls back the closing of a session whose heartbeat arrived meanwhile. */
class Renewed extends Error {}

/** Sessions of external work, kept open by heartbeats. */
export class ExternalSessions implements LiveRows {
  readonly #options: ExternalSessionsOptions;
  readonly #pulses: Pulses;
  /** Registrations in progress. */
  #arriving = 0;
  #sweeping: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ExternalSessionsOptions) {
    this.#options = options;
    this.#pulses = new Pulses(options.clock ?? systemClock, options.heartbeatSecs * 1000, sweepMs);
  }

  /** Open sessions. */
  get size(): number {
    return this.#pulses.size;
  }

  /** Restores the sessions that were open when the host ended, with a full deadline each, and starts the sweep. */
  async start(): Promise<void> {
    for (const { id } of await this.#open()) this.#pulses.beat(id);
    this.#timer = setInterval(() => void this.sweep(), sweepMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
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
    const secret = newSecret('external');
    const hash = secretHash(secret);
    const id = (await this.#renewed(request, hash, by)) ?? (await this.#arrive(request, hash, by));
    // Another request registered the same key at the same time.
    const settled = id ?? (await this.#renewed(request, hash, by));
    if (settled === undefined)
      throw new Error(`${store.endpointId}: the session of a colliding key does not exist`);
    this.#pulses.beat(settled);
    return { id: settled, secret, heartbeat_secs: heartbeatSecs };
  }

  /**
   * Checks the secret of a session.
   * @param otherwise kind of the error for an id that is not an external session
   * @throws AgentError unauthorized, not_found, conflict
   */
  async authorize(id: string, secret: string | null, otherwise: 'conflict' | 'not_found'): Promise<void> {
    if (secret === null) throw unauthorized();
    if (!id.startsWith('x'))
      throw otherwise === 'not_found'
        ? unknown(id)
        : new AgentError(
            'conflict',
            'not_external',
            `${id.slice(0, 80)} is not an external session; only those (x...) have heartbeats.`,
          );
    const row = await this.#secretHash(id).catch((error: unknown) => {
      // A heartbeat during a database failure counts, although it cannot be verified.
      this.#pulses.excuse(id);
      throw error;
    });
    if (!row) throw unknown(id);
    if (!secretFits(row.secret_hash, secret)) throw unauthorized();
  }

  /** Renews the deadline. @throws AgentError not_found when the session has ended */
  async heartbeat(id: string, beat: ExternalHeartbeat): Promise<{ id: string; deadline_at: string }> {
    const { store, heartbeatSecs } = this.#options;
    // Counted before it is stored, so that a slow write does not close the session.
    this.#pulses.beat(id);
    await store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('external_sessions')
        .select('tokens_claimed')
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .executeTakeFirst();
      if (!row) throw this.#gone(id);
      const tokens = beat.tokens && JSON.stringify(most(row.tokens_claimed, beat.tokens));
      const { numUpdatedRows } = await tx
        .updateTable('external_sessions')
        .set({
          beat_at: store.time(),
          ...(beat.status === undefined ? {} : { status: beat.status }),
          ...(beat.last_event === undefined ? {} : { last_event: beat.last_event }),
          ...(tokens === undefined ? {} : { tokens_claimed: tokens }),
        })
        .where('id', '=', id)
        .where('ended_at', 'is', null)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) throw this.#gone(id);
    });
    const deadline = store.now().getTime() + 2 * heartbeatSecs * 1000;
    return { id, deadline_at: new Date(deadline).toISOString() };
  }

  /** Ends a session. @throws AgentError not_found when it has already ended */
  async end(id: string, { outcome, exit_code, summary }: ExternalEnd): Promise<{ id: string; ended: true }> {
    await this.#options.store.transaction(async (tx) => {
      const closing = { outcome, closeReason: 'ended', by: `session:${id}` } as const;
      if (!(await this.#close(tx, id, { ...closing, exitCode: exit_code, summary }))) throw this.#gone(id);
    });
    this.#pulses.forget(id);
    return { id, ended: true };
  }

  /** Open sessions, newest first. */
  async live(): Promise<Session[]> {
    return (await this.#open()).map((row) => toSession(row, this.#pulses.isStale(row.id)));
  }

  /** Closes lost sessions, each in its own transaction. */
  async sweep(): Promise<void> {
    this.#sweeping ??= this.#sweepOnce().finally(() => {
      this.#sweeping = undefined;
    });
    await this.#sweeping;
  }

  async #sweepOnce(): Promise<void> {
    for (const id of this.#pulses.lost()) {
      try {
        await this.#options.store.transaction(async (tx) => {
          await this.#close(tx, id, { outcome: 'failed', closeReason: 'heartbeat_lost', by: 'host' });
          if (!this.#pulses.isLost(id)) throw new Renewed();
        });
        this.#pulses.forget(id);
      } catch (error) {
        if (!(error instanceof Renewed)) this.#options.onFault(error);
      }
    }
  }

  #secretHash(id: string): Promise<{ secret_hash: string } | undefined> {
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

  #open(): Promise<Tables['external_sessions'][]> {
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
  async #renewed(request: ExternalRegistration, hash: string, by: string): Promise<string | undefined> {
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
      const trouble =
        row.endpoint_id !== store.endpointId || !sameRegistration(row, request)
          ? 'was used for another registration'
          : row.ended_at !== null
            ? 'belongs to a session that has ended'
            : undefined;
      if (trouble !== undefined)
        throw new AgentError(
          'conflict',
          'idempotency_conflict',
          `This idempotency_key ${trouble}; register with another one.`,
        );
      await tx
        .updateTable('external_sessions')
        .set({ secret_hash: hash, beat_at: store.time() })
        .where('id', '=', row.id)
        .execute();
      await store.act(tx, {
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
  async #arrive(request: ExternalRegistration, hash: string, by: string): Promise<string | undefined> {
    const { store, most: limit } = this.#options;
    if (this.#pulses.size + this.#arriving >= limit)
      throw new AgentError(
        'too_many',
        'too_many_sessions',
        `${limit} external sessions are open, which is the limit; end one, or start the host with --external-sessions N.`,
      );
    this.#arriving += 1;
    try {
      const arrived = await store.transaction(async (tx) => {
        const id = newExternalId(store.now());
        const inserted = await tx
          .insertInto('external_sessions')
          .values(toRow(request, { id, endpointId: store.endpointId, hash, at: store.time() }))
          .onConflict((conflict) => conflict.column('idempotency_key').doNothing())
          .returning('id')
          .executeTakeFirst();
        if (!inserted) return undefined;
        const details = JSON.stringify({ harness: request.harness });
        await store.act(tx, { verb: 'session.register', target: id, by, outcome: 'applied', details });
        return id;
      });
      if (arrived !== undefined) this.#pulses.beat(arrived);
      return arrived;
    } finally {
      this.#arriving -= 1;
    }
  }

  /** @returns false when it has already ended */
  async #close(
    tx: Tx,
    id: string,
    { outcome, closeReason, by, exitCode, summary }: Closing,
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
    const lost = closeReason === 'heartbeat_lost';
    await store.act(tx, {
      verb: lost ? 'session.lost' : 'session.end',
      target: id,
      by,
      outcome: 'applied',
      ...(lost ? { reason: closeReason } : {}),
    });
    await signals.emit(tx, lost ? 'session.lost' : 'session.ended', { id, outcome, harness: row.harness });
    return true;
  }

  #gone(id: string): AgentError {
    this.#pulses.forget(id);
    return unknown(id);
  }
}

/** Token claims are cumulative, so a heartbeat that arrives late must not lower them. */
function most(before: string | null, now: TokenCounts): TokenCounts {
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

const unknown = (id: string) =>
  new AgentError(
    'not_found',
    'unknown_session',
    `There is no open external session ${id.slice(0, 80)}; register an ended one again.`,
  );
