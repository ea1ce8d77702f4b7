import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { generateSecret, hashSecret } from '../../signing/secret.ts';
import { type GatewayDb, type GatewayStore, type Row, toStorableText } from '../store/index.ts';
import { ancestorsOf } from '../budgets/account-parents.ts';
import type { ChangeLog, LoggedValues } from './change-log.ts';
import { checkCap, checkExpiry, checkLimit, invalid } from './checks.ts';
import { findAccount, findKeyById, lockAccount, retryIfUnsure, toKeyRow } from './rows.ts';
import type { KeyChanges, KeyRow, NewKey } from './types.ts';

type Key = Row<'gateway_keys'>;

const newId = (kind: 'k' | 'g'): string => `${kind}_${randomBytes(8).toString('hex')}`;

/** API keys. These change rarely, so each change is a transaction of its own. */
export class Keys {
  readonly #store: GatewayStore;
  readonly #log: ChangeLog;

  constructor(store: GatewayStore, log: ChangeLog) {
    this.#store = store;
    this.#log = log;
  }

  async create({ account, ...settings }: NewKey): Promise<{ row: KeyRow; secret: string }> {
    const columns = { ...noSettings, ...toColumns(settings) };
    const secret = generateSecret('gateway');
    const [id, change] = [newId('k'), newId('g')];
    const row = await retryIfUnsure(this.#store, async (tx) => {
      const known = await tx.selectFrom('gateway_keys').selectAll().where('id', '=', id).executeTakeFirst();
      if (known) return known;
      const newKey: Key = {
        id,
        account_id: (await findAccount(tx, account)).id,
        hash: hashSecret(secret),
        last4: secret.slice(-4),
        ...columns,
        spent: 0n,
        held: 0n,
        created_at: this.#store.time(),
        revoked_at: null,
        disabled_at: null,
        revision: 0n,
      };
      await tx.insertInto('gateway_keys').values(newKey).execute();
      const logged = { accountId: newKey.account_id, subject: id, action: 'key create' };
      await this.#log.write(tx, { ...logged, after: toLogged(columns) }, change);
      return newKey;
    });
    return { row: toKeyRow(row), secret };
  }

  /** Changes a key's settings, which running gateways observe with their next request. @throws LedgerError */
  async update(id: string, changes: KeyChanges): Promise<KeyRow> {
    const columns = toColumns(changes);
    return await this.#log.apply(
      async (tx) => {
        const { account_id: accountId } = await findKeyById(tx, id);
        await lockAccount(this.#store, tx, accountId);
        const before = await findKeyById(tx, id);
        if (before.revoked_at !== null)
          throw invalid(`The key ${id} is revoked and cannot be changed: create another one.`);
        const used = before.spent + before.held;
        const { cap } = columns;
        if (cap !== undefined && cap !== null && cap < used)
          throw invalid(
            `The cap of ${id} must be at least ${used} nanodollars, which the key has spent (${before.spent}) or holds for running requests (${before.held}); got ${cap}. To stop the key, disable it.`,
          );
        const changed = Object.keys(columns).filter(
          (name) => before[name as keyof Key] !== columns[name as keyof typeof columns],
        );
        if (changed.length === 0) return undefined;
        await tx
          .updateTable('gateway_keys')
          .set({ ...columns, revision: sql<bigint>`revision + 1` })
          .where('id', '=', id)
          .execute();
        const only = (values: object) =>
          toLogged(Object.fromEntries(Object.entries(values).filter(([name]) => changed.includes(name))));
        return { accountId, subject: id, action: 'key update', before: only(before), after: only(columns) };
      },
      async (tx) => toKeyRow(await findKeyById(tx, id)),
    );
  }

  /** Disabling a disabled key changes nothing, like enabling an enabled one. */
  setDisabled(id: string, isDisabled: boolean): Promise<KeyRow> {
    return this.#end(id, 'disabled_at', isDisabled);
  }

  /** Revoking a revoked key changes nothing. */
  revoke(id: string): Promise<KeyRow> {
    return this.#end(id, 'revoked_at', true);
  }

  async #end(id: string, column: 'disabled_at' | 'revoked_at', isEnded: boolean): Promise<KeyRow> {
    return await this.#log.apply(
      async (tx) => {
        const before = await findKeyById(tx, id);
        if (column === 'disabled_at' && before.revoked_at !== null)
          throw invalid(`The key ${id} is revoked and cannot be changed: create another one.`);
        if ((before[column] !== null) === isEnded) return undefined;
        const at = isEnded ? this.#store.time() : null;
        await tx
          .updateTable('gateway_keys')
          .set({ [column]: at, revision: sql<bigint>`revision + 1` })
          .where('id', '=', id)
          .execute();
        const verb = column === 'revoked_at' ? 'revoke' : isEnded ? 'disable' : 'enable';
        return { accountId: before.account_id, subject: id, action: `key ${verb}` };
      },
      async (tx) => toKeyRow(await findKeyById(tx, id)),
    );
  }

  async list(account?: string): Promise<KeyRow[]> {
    return await this.#store.read(async (db) => {
      let query = db.selectFrom('gateway_keys').selectAll().orderBy('created_at').orderBy('id');
      if (account !== undefined) query = query.where('account_id', '=', (await findAccount(db, account)).id);
      return (await query.execute()).map(toKeyRow);
    });
  }

  /** Finds a key by the hash of its secret. A key is disabled while its account, or one above, is. */
  async findByHash(hash: string): Promise<KeyRow | undefined> {
    return await this.#store.read(async (db) => {
      const row = await db.selectFrom('gateway_keys').selectAll().where('hash', '=', hash).executeTakeFirst();
      if (!row) return undefined;
      return toKeyRow({ ...row, disabled_at: row.disabled_at ?? (await findDisabled(db, row.account_id)) });
    });
  }
}

/** When an account, or one above it, was disabled; null when none is. */
async function findDisabled(db: GatewayDb, accountId: string): Promise<string | null> {
  const query = db
    .selectFrom('gateway_accounts')
    .select(['disabled_at', 'parent_id'])
    .where('id', '=', accountId);
  const account = await query.executeTakeFirst();
  if (!account || account.disabled_at !== null || account.parent_id === null)
    return account?.disabled_at ?? null;
  const ids = await ancestorsOf(db, accountId);
  const disabled = await db
    .selectFrom('gateway_accounts')
    .select('disabled_at')
    .where('id', 'in', ids)
    .where('disabled_at', 'is not', null)
    .executeTakeFirst();
  return disabled?.disabled_at ?? null;
}

type Settings = Pick<
  Key,
  'label' | 'cap' | 'models' | 'expires_at' | 'concurrency' | 'requests_per_minute' | 'tokens_per_minute'
>;

const noSettings: Settings = {
  label: null,
  cap: null,
  models: null,
  expires_at: null,
  concurrency: null,
  requests_per_minute: null,
  tokens_per_minute: null,
};

/** The columns of the settings that are given. @throws LedgerError */
function toColumns({ label, cap, expiresAt, models, ...limits }: KeyChanges): Partial<Settings> {
  checkCap(cap);
  const limit = (name: keyof typeof limits, column: keyof Settings): Partial<Settings> => {
    const value = limits[name];
    if (value === undefined) return {};
    checkLimit(column, value);
    return { [column]: value === null ? null : BigInt(value) };
  };
  return {
    ...(label === undefined ? {} : { label: label === null ? null : toStorableText(label) }),
    ...(cap === undefined ? {} : { cap }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt === null ? null : checkExpiry(expiresAt) }),
    ...(models === undefined ? {} : { models: models === null ? null : JSON.stringify(models) }),
    ...limit('concurrency', 'concurrency'),
    ...limit('requestsPerMinute', 'requests_per_minute'),
    ...limit('tokensPerMinute', 'tokens_per_minute'),
  };
}

const toLogged = ({ cap, models, ...rest }: Partial<Settings>): LoggedValues => ({
  ...rest,
  ...(cap === undefined ? {} : { cap_nanodollars: cap }),
  ...(models === undefined ? {} : { models: models === null ? null : (JSON.parse(models) as string[]) }),
});
