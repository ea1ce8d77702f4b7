import { randomBytes } from 'node:crypto';
import type { ChangeLog } from '../ledger/change-log.ts';
import { invalid, maxCredit } from '../ledger/checks.ts';
import { LedgerError } from '../ledger/errors.ts';
import { findAccount, findKeyById } from '../ledger/rows.ts';
import type { GatewayStore, GatewayTx } from '../store/index.ts';
import { toBudget } from './budget.ts';
import { parsePeriod } from './period.ts';
import type { Budget, NewBudget } from './types.ts';
import { advance, type BudgetRow } from './window.ts';

/** Sets, removes and lists budgets. Each change is a transaction of its own. */
export class Budgets {
  readonly #store: GatewayStore;
  readonly #log: ChangeLog;

  constructor(store: GatewayStore, log: ChangeLog) {
    this.#store = store;
    this.#log = log;
  }

  /**
   * Sets the budget of a key or an account for a period. It counts requests that are sent from then on. If there is one for
   * this period, its amount is changed, and its time zone where one is given; what is spent stays spent.
   * @throws LedgerError
   */
  async set({ owner, period, timeZone, amount }: NewBudget): Promise<Budget> {
    if (amount < 0n || amount > maxCredit)
      throw invalid(`A budget must be from 0 to ${maxCredit} nanodollars, got ${amount}.`);
    const parsed = parse(period, timeZone);
    const newId = `b_${randomBytes(8).toString('hex')}`;
    let id = newId;
    return await this.#log.apply(
      async (tx) => {
        const accountId =
          owner.kind === 'account'
            ? (await findAccount(tx, owner.id)).id
            : (await findKeyById(tx, owner.id)).account_id;
        const ownerId = owner.kind === 'account' ? accountId : owner.id;
        const known = await this.#lock(tx, { ownerId, period });
        const time_zone =
          parsed.kind !== 'calendar'
            ? null
            : timeZone === undefined && known
              ? known.time_zone
              : parsed.timeZone;
        const state = { amount_nanodollars: amount, period, time_zone };
        const logged = { accountId, subject: ownerId, action: 'budget set', after: state };
        if (!known) {
          const now = this.#store.time();
          const empty = { spent: 0n, held: 0n, ends_at: null, slices: null, noticed: null };
          const row = { id, owner_id: ownerId, account_id: accountId, period, time_zone, amount, ...empty };
          await tx
            .insertInto('gateway_budgets')
            .values(advance({ ...row, created_at: now }, now))
            .execute();
          return logged;
        }
        ({ id } = known);
        const before = { amount_nanodollars: known.amount, period, time_zone: known.time_zone };
        if (known.amount === amount && known.time_zone === time_zone) return undefined;
        // A period that was begun in another time zone ends as it would have ended.
        await tx.updateTable('gateway_budgets').set({ amount, time_zone }).where('id', '=', id).execute();
        return { ...logged, before };
      },
      async (tx) => this.#read(await findBudget(tx, id)),
    );
  }

  /** @returns the budget as it was @throws LedgerError */
  async remove(id: string): Promise<Budget> {
    let removed: BudgetRow | undefined;
    return await this.#log.apply(
      async (tx) => {
        const row = await findBudget(tx, id);
        removed = row;
        await tx.deleteFrom('gateway_budgets').where('id', '=', id).execute();
        const { amount, period, time_zone } = row;
        const before = { amount_nanodollars: amount, period, time_zone };
        return { accountId: row.account_id, subject: row.owner_id, action: 'budget remove', before };
      },
      async (tx) => this.#read(removed ?? (await findBudget(tx, id))),
    );
  }

  /** @param account id or name; undefined: of all accounts */
  async list(account?: string): Promise<Budget[]> {
    const rows = await this.#store.read(async (db) => {
      const query = db
        .selectFrom('gateway_budgets')
        .selectAll()
        .orderBy('account_id')
        .orderBy('owner_id')
        .orderBy('id');
      if (account === undefined) return await query.execute();
      return await query.where('account_id', '=', (await findAccount(db, account)).id).execute();
    });
    return rows.map((row) => this.#read(row));
  }

  #read(row: BudgetRow): Budget {
    return toBudget(row, this.#store.time());
  }

  async #lock(
    tx: GatewayTx,
    { ownerId, period }: { readonly ownerId: string; readonly period: string },
  ): Promise<BudgetRow | undefined> {
    return await tx
      .selectFrom('gateway_budgets')
      .selectAll()
      .where('owner_id', '=', ownerId)
      .where('period', '=', period)
      .$if(this.#store.kind === 'postgres', (query) => query.forUpdate())
      .executeTakeFirst();
  }
}

async function findBudget(tx: GatewayTx, id: string): Promise<BudgetRow> {
  const row = await tx.selectFrom('gateway_budgets').selectAll().where('id', '=', id).executeTakeFirst();
  if (!row) throw new LedgerError('unknown_budget', `There is no budget ${id}; \`budget list\` shows them.`);
  return row;
}

function parse(period: string, timeZone: string | undefined) {
  try {
    return parsePeriod(period, timeZone);
  } catch (error) {
    if (error instanceof RangeError) throw invalid(`A budget's period is invalid: ${error.message}.`);
    throw error;
  }
}
