import { randomBytes } from 'node:crypto';
import { type GatewayStore, type GatewayTx, type Row, toStorableText } from '../store/index.ts';
import { currentActor } from './actor.ts';
import { retryIfUnsure } from './rows.ts';
import type { ChangeRow } from './types.ts';

/** The most entries that one list has. */
export const maxChanges = 10_000;

/** Values of a change, as they are logged; `undefined` members are left out. */
export type LoggedValues = Readonly<
  Record<string, string | bigint | number | readonly string[] | null | undefined>
>;

/** What is logged about one change, besides its time and who made it. */
export interface LoggedChange {
  /** Undefined: the change is not of an account, but of the gateway. */
  readonly accountId?: string;
  readonly subject: string;
  readonly action: string;
  readonly before?: LoggedValues;
  readonly after?: LoggedValues;
}

/** The log of changes. A change and its entry are written in one transaction. */
export class ChangeLog {
  readonly #store: GatewayStore;
  /** Who makes the changes of this process. */
  readonly actor: string;

  /** @param actor who makes the changes of this process, as `user@host` */
  constructor(store: GatewayStore, actor: string) {
    this.#store = store;
    this.actor = toStorableText(actor);
  }

  /**
   * Makes a change and logs it. If the outcome of the transaction is unknown, it runs again, and the entry shows whether the
   * change was made.
   * @param change makes the change; returns what is logged, or undefined when nothing was changed
   * @param read reads the result
   */
  async apply<T>(
    change: (tx: GatewayTx) => Promise<LoggedChange | undefined>,
    read: (tx: GatewayTx) => Promise<T>,
  ): Promise<T> {
    const id = `g_${randomBytes(8).toString('hex')}`;
    return await retryIfUnsure(this.#store, async (tx) => {
      const done = await tx
        .selectFrom('gateway_changes')
        .select('id')
        .where('id', '=', id)
        .executeTakeFirst();
      const logged = done ? undefined : await change(tx);
      if (logged) await this.write(tx, logged, id);
      return await read(tx);
    });
  }

  /** Logs an event that changes nothing in the database. */
  async note(event: LoggedChange): Promise<void> {
    await this.apply(
      () => Promise.resolve(event),
      () => Promise.resolve(undefined),
    );
  }

  /** Writes an entry within the transaction of its change. */
  async write(
    tx: GatewayTx,
    { accountId, subject, action, before, after }: LoggedChange,
    id: string,
  ): Promise<void> {
    const row: Row<'gateway_changes'> = {
      id,
      at: this.#store.time(),
      actor: toStorableText(currentActor() ?? this.actor),
      account_id: accountId ?? '',
      subject: toStorableText(subject),
      action,
      before: before ? toJson(before) : null,
      after: after ? toJson(after) : null,
    };
    await tx.insertInto('gateway_changes').values(row).execute();
  }

  /** The newest entries first. */
  async list(accountId: string | undefined, limit: number): Promise<ChangeRow[]> {
    const rows = await this.#store.read((db) => {
      const query = db
        .selectFrom('gateway_changes')
        .selectAll()
        .orderBy('at', 'desc')
        .orderBy('id')
        .limit(limit);
      return (accountId === undefined ? query : query.where('account_id', '=', accountId)).execute();
    });
    return rows.map(({ id, at, actor, account_id, subject, action, before, after }) => ({
      id,
      at,
      actor,
      accountId: account_id || undefined,
      subject,
      action,
      before: parse(before),
      after: parse(after),
    }));
  }
}

const parse = (json: string | null): ChangeRow['before'] =>
  json === null ? undefined : (JSON.parse(json) as Record<string, unknown>);

/** Amounts are at most `maxCredit`, which is a little more than JSON numbers hold exactly: they are text. */
const toJson = (values: LoggedValues): string =>
  toStorableText(
    JSON.stringify(values, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)),
  );
