import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { type GatewayStore, type GatewayTx, systemAccounts, toStorableText } from '../store/index.ts';
import { checkParent } from '../budgets/account-parents.ts';
import type { ChangeLog } from './change-log.ts';
import { checkName, invalid, maxCredit } from './checks.ts';
import { LedgerError } from './errors.ts';
import { findAccount, retryIfUnsure, toAccountRow } from './rows.ts';
import type { AccountChanges, AccountRow, Balance, Nano } from './types.ts';

const newId = (kind: 'a' | 't' | 'g'): string => `${kind}_${randomBytes(8).toString('hex')}`;

/** Accounts. These change rarely, so each change is a transaction of its own. */
export class Accounts {
  readonly #store: GatewayStore;
  readonly #log: ChangeLog;

  constructor(store: GatewayStore, log: ChangeLog) {
    this.#store = store;
    this.#log = log;
  }

  async create(
    name: string,
    { credit = 0n, included = 0n, parent }: { credit?: Nano; included?: Nano; parent?: string | null },
  ) {
    const cleanName = checkName(name);
    if (credit < 0n || included < 0n || credit > maxCredit || included > maxCredit)
      throw invalid(
        `A new account's credit and included amount must each be from 0 to ${maxCredit} nanodollars, got ${credit} and ${included}.`,
      );
    const id = newId('a');
    const [creditReference, includeReference, change] = [newId('t'), newId('t'), newId('g')];
    return await retryIfUnsure(this.#store, async (tx) => {
      const known = await tx
        .selectFrom('gateway_accounts')
        .selectAll()
        .where((e) => e.or([e('id', '=', id), e('name', '=', cleanName)]))
        .executeTakeFirst();
      if (known?.id === id) return toAccountRow(known);
      if (known)
        throw new LedgerError(
          'account_exists',
          `The account ${known.id} already has the name "${cleanName}".`,
        );
      const sums = { balance: credit + included, held: 0n, allowance: included, included };
      const parent_id = await this.#findParent(tx, id, parent ?? null);
      const more = { created_at: this.#store.time(), disabled_at: null, parent_id };
      const row = { id, kind: 'user', name: cleanName, ...sums, ...more };
      await tx.insertInto('gateway_accounts').values(row).execute();
      await this.#postCredit(tx, { reference: creditReference, kind: 'credit', account: id, amount: credit });
      await this.#postCredit(tx, {
        reference: includeReference,
        kind: 'include',
        account: id,
        amount: included,
      });
      const logged = {
        accountId: id,
        subject: id,
        action: 'account create',
        after: { name: cleanName, parent_id },
      };
      await this.#log.write(tx, logged, change);
      return toAccountRow(row);
    });
  }

  async credit(account: string, amount: Nano, note?: string): Promise<AccountRow> {
    if (amount === 0n || amount > maxCredit || amount < -maxCredit)
      throw invalid(`A credit must be up to ${maxCredit} nanodollars, and not 0; got ${amount}.`);
    const reference = newId('t');
    return await retryIfUnsure(this.#store, async (tx) => {
      const { id } = await findAccount(tx, account);
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
          const { balance, held } = await findAccount(tx, id);
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
      return toAccountRow(await findAccount(tx, id));
    });
  }

  async update(account: string, { name, parent }: AccountChanges): Promise<AccountRow> {
    const cleanName = name === undefined ? undefined : checkName(name);
    let id = '';
    return await this.#log.apply(
      async (tx) => {
        const row = await findAccount(tx, account);
        ({ id } = row);
        const changes = {
          ...(cleanName === undefined || cleanName === row.name ? {} : { name: cleanName }),
          ...(parent === undefined ? {} : { parent_id: await this.#findParent(tx, id, parent) }),
        };
        if (changes.parent_id === row.parent_id) delete changes.parent_id;
        if (Object.keys(changes).length === 0) return undefined;
        if (changes.name !== undefined) await this.#checkUnused(tx, changes.name);
        await tx.updateTable('gateway_accounts').set(changes).where('id', '=', id).execute();
        const before = {
          ...(changes.name === undefined ? {} : { name: row.name }),
          ...(changes.parent_id === undefined ? {} : { parent_id: row.parent_id }),
        };
        return { accountId: id, subject: id, action: 'account update', before, after: changes };
      },
      async (tx) => toAccountRow(await findAccount(tx, id)),
    );
  }

  async #checkUnused(tx: GatewayTx, name: string): Promise<void> {
    const query = tx.selectFrom('gateway_accounts').select('id').where('name', '=', name);
    const other = await query.executeTakeFirst();
    if (other)
      throw new LedgerError('account_exists', `The account ${other.id} already has the name "${name}".`);
  }

  /** @returns the id of the account above @throws LedgerError */
  async #findParent(tx: GatewayTx, id: string, parent: string | null): Promise<string | null> {
    if (parent === null) return null;
    const { id: parentId } = await findAccount(tx, parent);
    await checkParent(this.#store, tx, { id, parentId });
    return parentId;
  }

  /** A disabled account's keys are refused. Disabling a disabled account changes nothing. */
  async setDisabled(account: string, isDisabled: boolean): Promise<AccountRow> {
    let id = '';
    return await this.#log.apply(
      async (tx) => {
        const before = await findAccount(tx, account);
        ({ id } = before);
        if ((before.disabled_at !== null) === isDisabled) return undefined;
        const disabled_at = isDisabled ? this.#store.time() : null;
        await tx.updateTable('gateway_accounts').set({ disabled_at }).where('id', '=', id).execute();
        return { accountId: id, subject: id, action: isDisabled ? 'account disable' : 'account enable' };
      },
      async (tx) => toAccountRow(await findAccount(tx, id)),
    );
  }

  async balance(accountId: string): Promise<Balance> {
    return await this.#store.read(async (db) => toAccountRow(await findAccount(db, accountId)).balance);
  }

  async find(account: string): Promise<AccountRow> {
    return await this.#store.read(async (db) => toAccountRow(await findAccount(db, account)));
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
    return rows.map(toAccountRow);
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
}
