import { createHash, randomBytes } from 'node:crypto';
import { type Selectable, sql } from 'kysely';
import type { Store, Tables, Tx } from '../../store/index.ts';
import { toAgentEvent } from '../event-feed.ts';
import { type AgentEvent, isSelected } from '../shapes/agent-event.ts';
import type { StoredSignals } from '../signals.ts';

/** Signals that are looked at in one transaction. */
const queueBatchSize = 256;
/** How long the state of an endpoint is kept after the last host that has it in its configuration. */
const maxAbsenceMs = 30 * 24 * 60 * 60 * 1000;

export type WebhookRow = Selectable<Tables['webhooks']>;

/** An event that is to be delivered now. */
export interface DueDelivery {
  readonly seq: number;
  readonly attempts: number;
  readonly queuedAt: string;
  readonly event: AgentEvent;
}

/** The state of one endpoint in the database. */
export class DeliveryStore {
  readonly id: string;
  readonly #store: Store;
  readonly #signals: StoredSignals;

  private constructor(id: string, { store, signals }: { store: Store; signals: StoredSignals }) {
    this.id = id;
    this.#store = store;
    this.#signals = signals;
  }

  /** The state of a URL. A new endpoint gets the events from now on. */
  static async open(
    url: string,
    options: { readonly store: Store; readonly signals: StoredSignals },
  ): Promise<DeliveryStore> {
    const { store, signals } = options;
    const endpoint = createHash('sha256').update(url).digest('hex');
    const id = await store.transaction(async (tx) => {
      const row = await tx
        .selectFrom('webhooks')
        .select('id')
        .where('endpoint', '=', endpoint)
        .executeTakeFirst();
      if (row) return row.id;
      const newId = randomBytes(8).toString('hex');
      await tx
        .insertInto('webhooks')
        .values({
          id: newId,
          endpoint,
          cursor: await signals.last(tx),
          delivered: 0,
          given_up: 0,
          delivered_at: null,
          last_error: null,
          last_error_at: null,
          lease_by: null,
          lease_until: store.time(),
        })
        .execute();
      return newId;
    });
    return new DeliveryStore(id, options);
  }

  /** Deletes endpoints that no host has had for long, and deliveries of signals that were deleted. */
  static async prune(store: Store): Promise<void> {
    const any = await store.read((db) => db.selectFrom('webhooks').select('id').limit(1).execute());
    if (any.length === 0) return;
    const oldest = new Date(store.now().getTime() - maxAbsenceMs).toISOString();
    await store.transaction(async (tx) => {
      await tx.deleteFrom('webhooks').where('lease_until', '<', oldest).execute();
      const { numDeletedRows } = await tx
        .deleteFrom('webhook_deliveries')
        .where((eb) =>
          eb.or([
            eb('webhook', 'not in', eb.selectFrom('webhooks').select('id')),
            eb('seq', 'not in', eb.selectFrom('signals').select('seq')),
          ]),
        )
        .executeTakeFirstOrThrow();
      if (numDeletedRows > 0n) await releaseFirsts(tx, store.time());
    });
  }

  async row(): Promise<WebhookRow> {
    return await this.#store.read((db) =>
      db.selectFrom('webhooks').selectAll().where('id', '=', this.id).executeTakeFirstOrThrow(),
    );
  }

  /** Takes or renews the right to deliver to this endpoint. @returns whether this host has it */
  async lease(ms: number): Promise<boolean> {
    const now = this.#store.now();
    const { numUpdatedRows } = await this.#store.transaction((tx) =>
      tx
        .updateTable('webhooks')
        .set({
          lease_by: this.#store.endpointId,
          lease_until: new Date(now.getTime() + ms).toISOString(),
        })
        .where('id', '=', this.id)
        .where((eb) =>
          eb.or([
            eb('lease_by', 'is', null),
            eb('lease_by', '=', this.#store.endpointId),
            eb('lease_until', '<', now.toISOString()),
          ]),
        )
        .executeTakeFirstOrThrow(),
    );
    return numUpdatedRows === 1n;
  }

  /** Lets another host deliver at once. */
  async release(): Promise<void> {
    await this.#store.transaction((tx) =>
      tx
        .updateTable('webhooks')
        .set({ lease_by: null })
        .where('id', '=', this.id)
        .where('lease_by', '=', this.#store.endpointId)
        .execute(),
    );
  }

  /** Queues the next events. @returns the last signal that was looked at */
  async queue(types: readonly string[] | undefined): Promise<number> {
    return await this.#store.transaction(async (tx) => {
      const { cursor } = await tx
        .selectFrom('webhooks')
        .select('cursor')
        .where('id', '=', this.id)
        .executeTakeFirstOrThrow();
      const signals = await this.#signals.after(tx, cursor, queueBatchSize);
      // Without any, all up to the newest were deleted.
      const last = signals.at(-1)?.seq ?? (await this.#signals.last(tx));
      if (last === cursor) return cursor;
      const now = this.#store.time();
      const events = signals.flatMap((signal) => {
        const event = toAgentEvent(signal);
        return event && isSelected(event.type, types) ? [event] : [];
      });
      const subjects = await this.#waitingSubjects(
        tx,
        events.map(({ data }) => data.id),
      );
      const deliveries = events.map(({ id: seq, data: { id: subject } }) => {
        const next_at = subjects.has(subject) ? null : now;
        subjects.add(subject);
        return { webhook: this.id, seq, subject, attempts: 0, queued_at: now, next_at };
      });
      if (deliveries.length > 0) await tx.insertInto('webhook_deliveries').values(deliveries).execute();
      await tx.updateTable('webhooks').set({ cursor: last }).where('id', '=', this.id).execute();
      return last;
    });
  }

  async #waitingSubjects(tx: Tx, subjects: readonly string[]): Promise<Set<string>> {
    if (subjects.length === 0) return new Set();
    const rows = await tx
      .selectFrom('webhook_deliveries')
      .select('subject')
      .distinct()
      .where('webhook', '=', this.id)
      .where('subject', 'in', [...new Set(subjects)])
      .execute();
    return new Set(rows.map(({ subject }) => subject));
  }

  /**
   * The events that may be sent now. An event whose time is further away than a delay can be, because the clock was set back, counts
   * as due.
   * @param excluded events that are being sent
   */
  async due(
    excluded: readonly number[],
    { limit, maxDelayMs }: { readonly limit: number; readonly maxDelayMs: number },
  ): Promise<readonly DueDelivery[]> {
    const nowMs = this.#store.now().getTime();
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('webhook_deliveries as d')
        .innerJoin('signals', 'signals.seq', 'd.seq')
        .select(['d.seq', 'd.attempts', 'd.queued_at', 'signals.name', 'signals.at', 'signals.data'])
        .where('d.webhook', '=', this.id)
        .where((eb) =>
          eb.or([
            eb('d.next_at', '<=', new Date(nowMs).toISOString()),
            eb('d.next_at', '>', new Date(nowMs + maxDelayMs).toISOString()),
          ]),
        )
        .$if(excluded.length > 0, (query) => query.where('d.seq', 'not in', [...excluded]))
        .orderBy('d.next_at')
        .limit(limit)
        .execute(),
    );
    return rows.flatMap(({ seq, attempts, queued_at: queuedAt, ...signal }) => {
      const event = toAgentEvent({ ...signal, seq, data: JSON.parse(signal.data) as unknown });
      return event ? [{ seq, attempts, queuedAt, event }] : [];
    });
  }

  /** Number of events that are not delivered yet. */
  async count(): Promise<number> {
    const { count } = await this.#store.read((db) =>
      db
        .selectFrom('webhook_deliveries')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where('webhook', '=', this.id)
        .executeTakeFirstOrThrow(),
    );
    return count;
  }

  /** When the next event is to be sent. @param excluded events that are being sent */
  async nextAt(excluded: readonly number[] = []): Promise<string | undefined> {
    const row = await this.#store.read((db) =>
      db
        .selectFrom('webhook_deliveries')
        .select('next_at')
        .where('webhook', '=', this.id)
        .where('next_at', 'is not', null)
        .$if(excluded.length > 0, (query) => query.where('seq', 'not in', [...excluded]))
        .orderBy('next_at')
        .limit(1)
        .executeTakeFirst(),
    );
    return row?.next_at ?? undefined;
  }

  async storeDelivered(seq: number): Promise<void> {
    await this.#store.transaction(async (tx) => {
      await this.#remove(tx, seq);
      await tx
        .updateTable('webhooks')
        .set({ delivered: sql`delivered + 1`, delivered_at: this.#store.time() })
        .where('id', '=', this.id)
        .execute();
    });
  }

  /** @param nextAt time of the next attempt; undefined: the event is given up */
  async storeFailed(seq: number, error: string, nextAt: string | undefined): Promise<void> {
    await this.#store.transaction(async (tx) => {
      if (nextAt === undefined) await this.#remove(tx, seq);
      else
        await tx
          .updateTable('webhook_deliveries')
          .set({ attempts: sql`attempts + 1`, next_at: nextAt })
          .where('webhook', '=', this.id)
          .where('seq', '=', seq)
          .execute();
      await tx
        .updateTable('webhooks')
        .set({
          last_error: error,
          last_error_at: this.#store.time(),
          ...(nextAt === undefined ? { given_up: sql`given_up + 1` } : {}),
        })
        .where('id', '=', this.id)
        .execute();
    });
  }

  /** Removes an event; the next one of its subject is due. */
  async #remove(tx: Tx, seq: number): Promise<void> {
    const removed = await tx
      .deleteFrom('webhook_deliveries')
      .where('webhook', '=', this.id)
      .where('seq', '=', seq)
      .returning('subject')
      .executeTakeFirst();
    if (removed) await releaseFirsts(tx, this.#store.time(), { webhook: this.id, ...removed });
  }
}

/** Makes the first waiting event of each subject due, or of one. */
async function releaseFirsts(
  tx: Tx,
  now: string,
  only?: { readonly webhook: string; readonly subject: string },
): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({ next_at: now })
    .where('next_at', 'is', null)
    .$if(only !== undefined, (query) =>
      query.where('webhook', '=', only?.webhook ?? '').where('subject', '=', only?.subject ?? ''),
    )
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('webhook_deliveries as before')
            .select('before.seq')
            .whereRef('before.webhook', '=', 'webhook_deliveries.webhook')
            .whereRef('before.subject', '=', 'webhook_deliveries.subject')
            .whereRef('before.seq', '<', 'webhook_deliveries.seq'),
        ),
      ),
    )
    .execute();
}
