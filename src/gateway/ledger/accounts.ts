import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { generateSecret, hashSecret } from '../../signing/secret.ts';
import { StoreError } from '../../store/index.ts';
import {
  type GatewayDb,
  type GatewayStore,
  type GatewayTx,
  systemAccounts,
  toStorableText,
  type Row,
} from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type { AccountRow, Balance, KeyRow, Ledger, Nano } from './types.ts';

type Account = Row<'gateway_accounts'>;
type Key = Row<'gateway_keys'>;

/** Upper limit of one credit and of a key's cap, in nanodollars: ten million dollars. */
const maxCredit = 10n ** 16n;
const newId = (kind: 'a' | 'k' | 't'): string => `${kind}_${randomBytes(8).toString('hex')}`;

/** Accounts and API keys. These change rarely, so each change is a transaction of its own. */
export class Accounts {
  readonly #store: GatewayStore;

  constructor(store: GatewayStore) {
    this.#store = store;
  }

  async create(name: string, { credit = 0n, included = 0n }: { credit?: Nano; included?: Nano }) {
    const cleanName = toStorableText(name.trim());
    if (cleanName === '' || cleanName.length > 200)
      throw invalid(`An account's name must have 1 to 200 characters, got ${cleanName.length}.`);
    // Names are printed to terminals.
    if (/\p{Cc}/u.test(cleanName))
      throw invalid(`An account's name must have no control characters, got ${JSON.stringify(cleanName)}.`);
    if (credit < 0n || included < 0n || credit > maxCredit || included > maxCredit)
      throw invalid(
        `A new account's credit and included amount must each be from 0 to ${maxCredit} nanodollars, got ${credit} and ${included}.`,
      );
    const id = newId('a');
    const [creditReference, includeReference] = [newId('t'), newId('t')];
    return await this.#retryIfUnsure(async (tx) => {
      const known = await tx
        .selectFrom('gateway_accounts')
        .selectAll()
        .where((e) => e.or([e('id', '=', id), e('name', '=', cleanName)]))
        .executeTakeFirst();
      if (known?.id === id) return accountRow(known);
      if (known)
        throw new LedgerError(
          'account_exists',
          `The account ${known.id} already has the name "${cleanName}".`,
        );
      const sums = { balance: credit + included, held: 0n, allowance: included, included };
      const row = { id, kind: 'user', name: cleanName, ...sums, created_at: this.#store.time() };
      await tx.insertInto('gateway_accounts').values(row).execute();
      await this.#postCredit(tx, { reference: creditReference, kind: 'credit', account: id, amount: credit });
      await this.#postCredit(tx, {
        reference: includeReference,
        kind: 'include',
        account: id,
        amount: included,
      });
      return accountRow(row);
    });
  }

  async credit(account: string, amount: Nano, note?: string): Promise<AccountRow> {
    if (amount === 0n || amount > maxCredit || amount < -maxCredit)
      throw invalid(`A credit must be up to ${maxCredit} nanodollars, and not 0; got ${amount}.`);
    const reference = newId('t');
    return await this.#retryIfUnsure(async (tx) => {
      const { id } = await this.#findAccount(tx, account);
      const done = tx.selectFrom('gateway_transactions').select('kind').where('reference', '=', reference);
      if (!(await done.executeTakeFirst())) {
        const { numUpdatedRows } = await tx
          .updateTable('gateway_accounts')
          .set({
            balance: sql`balance + ${amount}`,
            // Credits are taken before the allowance.
            allowance: sql`case when balance + ${amount} < allowance then balance + ${amount} else allowance end`,
          })
          .where('id', '=', id)
          .where(sql<boolean>`balance - held + ${amount} >= 0`)
          .executeTakeFirst();
        if (numUpdatedRows === 0n) {
          const { balance, held } = await this.#findAccount(tx, id);
          throw new LedgerError(
            'balance_too_low',
            `Account ${id} has ${balance - held} nanodollars free; ${-amount} cannot be taken from it.`,
          );
        }
        await this.#postCredit(tx, {
          reference,
          kind: 'credit',
          account: id,
          amount,
          ...(note ? { note } : {}),
        });
      }
      return accountRow(await this.#findAccount(tx, id));
    });
  }

  async balance(accountId: string): Promise<Balance> {
    return await this.#store.read(async (db) => accountRow(await this.#findAccount(db, accountId)).balance);
  }

  async list(): Promise<AccountRow[]> {
    const rows = await this.#store.read((db) =>
      db
        .selectFrom('gateway_accounts')
        .selectAll()
        .where('kind', '=', 'user')
        .orderBy('created_at')
        .orderBy('id')
        .execute(),
    );
    return rows.map(accountRow);
  }

  async createKey({ account, label, cap, expiresAt, models }: Parameters<Ledger['createKey']>[0]) {
    if (cap !== undefined && (cap < 0n || cap > maxCredit))
      throw invalid(`A key's cap must be from 0 to ${maxCredit} nanodollars, got ${cap}.`);
    const expires = expiresAt === undefined ? undefined : new Date(expiresAt);
    if (expires && Number.isNaN(expires.getTime()))
      throw invalid(`A key's expiry must be a time such as 2027-01-31T00:00:00Z, got "${expiresAt}".`);
    const secret = generateSecret('gateway');
    const id = newId('k');
    const row = await this.#retryIfUnsure(async (tx) => {
      const known = await tx.selectFrom('gateway_keys').selectAll().where('id', '=', id).executeTakeFirst();
      if (known) return known;
      const newKey: Key = {
        id,
        account_id: (await this.#findAccount(tx, account)).id,
        hash: hashSecret(secret),
        last4: secret.slice(-4),
        label: label === undefined ? null : toStorableText(label),
        cap: cap ?? null,
        spent: 0n,
        held: 0n,
        models: models ? JSON.stringify(models) : null,
        created_at: this.#store.time(),
        expires_at: expires?.toISOString() ?? null,
        revoked_at: null,
      };
      await tx.insertInto('gateway_keys').values(newKey).execute();
      return newKey;
    });
    return { row: keyRow(row), secret };
  }

  /** Revoking a revoked key changes nothing. */
  async revokeKey(id: string): Promise<KeyRow> {
    return await this.#retryIfUnsure(async (tx) => {
      await tx
        .updateTable('gateway_keys')
        .set({ revoked_at: this.#store.time() })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .execute();
      const row = await tx.selectFrom('gateway_keys').selectAll().where('id', '=', id).executeTakeFirst();
      if (!row) throw new LedgerError('unknown_key', `There is no key ${id}; key ids begin with k_.`);
      return keyRow(row);
    });
  }

  async keys(account?: string): Promise<KeyRow[]> {
    return await this.#store.read(async (db) => {
      let query = db.selectFrom('gateway_keys').selectAll().orderBy('created_at').orderBy('id');
      if (account !== undefined)
        query = query.where('account_id', '=', (await this.#findAccount(db, account)).id);
      return (await query.execute()).map(keyRow);
    });
  }

  async findKey(hash: string): Promise<KeyRow | undefined> {
    const row = await this.#store.read((db) =>
      db.selectFrom('gateway_keys').selectAll().where('hash', '=', hash).executeTakeFirst(),
    );
    return row && keyRow(row);
  }

  /** Posts the two entries of a credit; the other side is the funding account. */
  async #postCredit(
    tx: GatewayTx,
    given: { reference: string; kind: 'credit' | 'include'; account: string; amount: Nano; note?: string },
  ): Promise<void> {
    const { reference, kind, account, amount, note } = given;
    if (amount === 0n) return;
    const at = this.#store.time();
    const cleanNote = note === undefined ? null : toStorableText(note);
    await tx.insertInto('gateway_transactions').values({ reference, kind, at, note: cleanNote }).execute();
    await tx
      .insertInto('gateway_entries')
      .values([
        { reference, kind, account_id: account, amount },
        { reference, kind, account_id: systemAccounts.funding, amount: -amount },
      ])
      .execute();
  }

  /** Finds an account by id or by name. @throws LedgerError when there is none */
  async #findAccount(db: GatewayDb | GatewayTx, account: string): Promise<Account> {
    const rows = await db
      .selectFrom('gateway_accounts')
      .selectAll()
      .where('kind', '=', 'user')
      .where((e) => e.or([e('id', '=', account), e('name', '=', toStorableText(account))]))
      .execute();
    const row = rows.find(({ id }) => id === account) ?? rows[0];
    if (!row)
      throw new LedgerError(
        'unknown_account',
        `There is no account "${account}"; name it by its id or its name.`,
      );
    return row;
  }

  /** Runs a transaction again if its outcome is unknown. The work itself must detect that it was already done. */
  async #retryIfUnsure<T>(work: (tx: GatewayTx) => Promise<T>): Promise<T> {
    try {
      return await this.#store.transaction(work);
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'storage_unsure')) throw error;
      return await this.#store.transaction(work);
    }
  }
}

const invalid = (message: string) => new LedgerError('invalid', message);

/** Converts a row. Held amounts reduce the allowance first, in the order in which they will be spent. */
function accountRow({ id, name, created_at, balance, held, allowance, included }: Account): AccountRow {
  const remaining = balance - held;
  const allowanceRemaining = allowance > held ? allowance - held : 0n;
  const creditsRemaining = remaining - allowanceRemaining;
  return {
    id,
    name,
    createdAt: created_at,
    balance: { remaining, included, allowanceRemaining, creditsRemaining },
    held,
  };
}

function keyRow(row: Key): KeyRow {
  const { id, last4, spent, held, models } = row;
  return {
    id,
    accountId: row.account_id,
    label: row.label ?? undefined,
    last4,
    cap: row.cap ?? undefined,
    spent,
    held,
    models: models === null ? undefined : (JSON.parse(models) as string[]),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}
