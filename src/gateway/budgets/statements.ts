import type { Connection } from '../../store/index.ts';
import type { ChangePart } from '../store/statements.ts';
import type { Statements } from '../store/index.ts';
import type { HoldRow, Operation } from '../ledger/operations.ts';
import { type AncestorRow, budgetsOf, type LockedBudgets } from './batch-budgets.ts';
import type { BudgetRow } from './window.ts';

const value = { value: 'text' } as const;

/** Levels of accounts above an account that are looked at; `account-parents.ts` allows fewer. */
const maxLevels = 16;

/** Statements of a commit of the ledger that read and lock budgets. */
export const prepareBudgetStatements = ({ prepare }: Statements) => ({
  ancestors: prepare<typeof value, AncestorRow>(
    value,
    `with recursive above (account_id, ancestor_id, level) as (
       select child.id, child.parent_id, 1 from gateway_accounts as child, {given}
         where child.id = given.value and child.parent_id is not null
       union all
       select above.account_id, parent.parent_id, above.level + 1
         from above join gateway_accounts as parent on parent.id = above.ancestor_id
         where parent.parent_id is not null and above.level < ${maxLevels}
     )
     select above.account_id, above.ancestor_id, ancestor.disabled_at
     from above join gateway_accounts as ancestor on ancestor.id = above.ancestor_id
     order by above.account_id, above.level`,
  ),
  budgets: prepare<typeof value, BudgetRow>(
    value,
    `select budget.* from gateway_budgets as budget, {given}
     where budget.owner_id = given.value order by budget.id {lock budget}`,
  ),
});

const savedColumns = {
  id: 'text',
  spent: 'integer',
  held: 'integer',
  ends_at: 'text?',
  slices: 'text?',
  noticed: 'text?',
} as const;

/** The part of a commit's combined change that writes the state of budgets: their rows are locked. */
export const saveBudgets: ChangePart<typeof savedColumns> = {
  given: savedColumns,
  text: `update gateway_budgets as budget
    set spent = given.spent, held = given.held, ends_at = given.ends_at, slices = given.slices,
        noticed = given.noticed
    from {given} where budget.id = given.id`,
};

/**
 * Locks the budgets of the holds that operations place and end, after the accounts, and in the order of their ids: which
 * prevents deadlocks, also with accounts that have an account above them in common.
 * @param parented accounts that have an account above them
 * @param open the holds that are open already
 */
export async function lockBudgets(
  statements: ReturnType<typeof prepareBudgetStatements>,
  connection: Connection,
  {
    operations,
    open,
    parented,
  }: {
    readonly operations: readonly Operation[];
    readonly open: readonly HoldRow[];
    readonly parented: readonly string[];
  },
): Promise<LockedBudgets> {
  const { rows: ancestors } = await statements.ancestors(
    connection,
    parented.map((id) => ({ value: id })),
  );
  const owners = new Set(open.flatMap((hold) => budgetsOf(hold).map(({ ownerId }) => ownerId)));
  for (const operation of operations) {
    if (operation.kind !== 'reserve') continue;
    owners.add(operation.hold.key_id).add(operation.hold.account_id);
    for (const { account_id, ancestor_id } of ancestors)
      if (account_id === operation.hold.account_id) owners.add(ancestor_id);
  }
  // SQLite runs the statement for each row, so the rows are sorted here as well; it has one writer at a time.
  const { rows: budgets } = await statements.budgets(
    connection,
    [...owners].sort().map((id) => ({ value: id })),
  );
  return { budgets, ancestors };
}
