import { formatTable } from '../../cli/models/format-table.ts';
import { UsageError } from '../../config/usage.ts';
import { parsePeriod } from '../budgets/period.ts';
import { toBudgetBody } from '../ledger/bodies.ts';
import {
  type CommandContext,
  findAccount,
  positional,
  requireFlag,
  withBooks,
  writeNote,
  writeResult,
} from './command-context.ts';
import type { OperatorBooks } from './types.ts';
import { formatDollars } from '../ledger/money.ts';

/** `budget set`: sets or changes the budget of a key or an account for a period. */
export async function setBudget(context: CommandContext): Promise<void> {
  const { key, account, usd, per, 'time-zone': timeZone } = context.command.flags;
  if ((key === undefined) === (account === undefined))
    throw new UsageError(['budget set needs either --key ID or --account NAME']);
  const period = requireFlag(per, 'per');
  try {
    parsePeriod(period, timeZone);
  } catch (error) {
    // Each flag is valid on its own.
    if (error instanceof RangeError) throw new UsageError([`--time-zone: ${error.message}`]);
    throw error;
  }
  await withBooks(context, async (books) => {
    const { ledger } = books;
    const budget = await ledger.setBudget({
      owner: key === undefined ? await ownerAccount(books, account) : { kind: 'key', id: key },
      period,
      amount: requireFlag(usd, 'usd'),
      ...(timeZone === undefined ? {} : { timeZone }),
    });
    if (budget.amount === 0n) writeNote(context, 'a budget of 0 admits only requests that cost nothing');
    const resets = budget.resetsAt === undefined ? '' : `; it starts anew at ${budget.resetsAt}`;
    writeResult(
      context,
      toBudgetBody(budget),
      `${budget.id} allows ${formatDollars(budget.amount)} per ${budget.period}${resets}\n`,
    );
  });
}

const ownerAccount = async (books: OperatorBooks, account: string | undefined) => ({
  kind: 'account' as const,
  id: (await findAccount(books, requireFlag(account, 'account'))).id,
});

export function removeBudget(context: CommandContext): Promise<void> {
  return withBooks(context, async (books) => {
    const { ledger } = books;
    const budget = await ledger.removeBudget(positional(context, 0));
    writeResult(context, toBudgetBody(budget), `${budget.id} is removed\n`);
  });
}

export function listBudgets(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  return withBooks(context, async (books) => {
    const { ledger } = books;
    const accountId = account === undefined ? undefined : (await findAccount(books, account)).id;
    const names = new Map((await ledger.accounts()).map(({ id, name }) => [id, name]));
    const budgets = await ledger.budgets(accountId);
    const cells = budgets.map((budget) => [
      budget.id,
      budget.owner.kind === 'key' ? budget.owner.id : (names.get(budget.owner.id) ?? budget.owner.id),
      budget.period,
      budget.timeZone ?? '-',
      formatDollars(budget.amount),
      formatDollars(budget.spent),
      formatDollars(budget.held),
      budget.resetsAt ?? '-',
    ]);
    const headings = ['ID', 'OF', 'PER', 'TIME ZONE', 'AMOUNT', 'SPENT', 'HELD', 'RESETS'];
    writeResult(context, { data: budgets.map(toBudgetBody) }, formatTable(headings, cells));
  });
}
