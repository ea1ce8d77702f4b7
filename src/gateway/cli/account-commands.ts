import { formatTable } from '../../cli/models/format-table.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { toAccountBody } from '../ledger/bodies.ts';
import { LedgerError } from '../ledger/errors.ts';
import { formatDollars, parseNanodollars } from '../ledger/money.ts';
import {
  findAccount,
  writeResult,
  writeNote,
  type CommandContext,
  withBooks,
  positional,
} from './command-context.ts';
import type { OperatorBooks } from './types.ts';

export function createAccount(session: CommandContext): Promise<void> {
  const { 'credit-usd': credit, 'included-usd': included, parent } = session.command.flags;
  return withBooks(
    session,
    async (books) => {
      const { ledger } = books;
      const above = await findParent(books, parent);
      const row = await ledger.createAccount(positional(session, 0), {
        ...(credit === undefined ? {} : { credit }),
        ...(included === undefined ? {} : { included }),
        ...(above === undefined ? {} : { parent: above }),
      });
      writeResult(
        session,
        toAccountBody(row),
        `the account ${row.name} is ${row.id}, with ${formatDollars(row.balance.remaining)}\n`,
      );
    },
    { canCreate: true },
  );
}

export function creditAccount(session: CommandContext): Promise<void> {
  const { note: reason } = session.command.flags;
  const amount = parseAmount(positional(session, 1));
  return withBooks(session, async (books) => {
    const { ledger } = books;
    const { id, name } = await findAccount(books, positional(session, 0));
    const row = await ledger.credit(id, amount, reason).catch(async (error: unknown) => {
      if (!(error instanceof LedgerError) || error.code !== 'balance_too_low') throw error;
      const { balance } = await findAccount(books, id);
      throw new StartError(
        `${name} has ${formatDollars(balance.remaining)} free; ${formatDollars(-amount)} cannot be taken from it`,
      );
    });
    writeResult(session, toAccountBody(row), `${row.name} has ${formatDollars(row.balance.remaining)} now\n`);
  });
}

export async function updateAccount(session: CommandContext): Promise<void> {
  const { name, parent } = session.command.flags;
  if (name === undefined && parent === undefined)
    throw new UsageError(['account update needs --name NAME or --parent NAME']);
  await withBooks(session, async (books) => {
    const { ledger } = books;
    const before = await findAccount(books, positional(session, 0));
    const above = await findParent(books, parent);
    const row = await ledger.updateAccount(before.id, {
      ...(name === undefined ? {} : { name }),
      ...(above === undefined ? {} : { parent: above }),
    });
    writeResult(session, toAccountBody(row), `${row.name} is changed\n`);
  });
}

/** The id of the account above; null and undefined as given. */
const findParent = async (books: OperatorBooks, parent: string | null | undefined) =>
  typeof parent === 'string' ? (await findAccount(books, parent)).id : parent;

const setDisabled =
  (isDisabled: boolean) =>
  (session: CommandContext): Promise<void> =>
    withBooks(session, async (books) => {
      const { ledger } = books;
      const { id } = await findAccount(books, positional(session, 0));
      const row = await ledger.setAccountDisabled(id, isDisabled);
      writeResult(session, toAccountBody(row), `${row.name} is ${isDisabled ? 'disabled' : 'enabled'}\n`);
    });

export const disableAccount = setDisabled(true);
export const enableAccount = setDisabled(false);

export function listAccounts(session: CommandContext): Promise<void> {
  return withBooks(session, async (books) => {
    const { ledger } = books;
    const rows = await ledger.accounts();
    if (rows.length === 0) writeNote(session, `there are no accounts ${books.place}`);
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    const cells = rows.map(({ id, name, createdAt, disabledAt, parentId, balance, held }) => [
      name,
      id,
      formatDollars(balance.remaining),
      formatDollars(balance.allowanceRemaining),
      formatDollars(balance.creditsRemaining),
      formatDollars(held),
      createdAt.slice(0, 10),
      parentId === undefined ? '-' : (names.get(parentId) ?? parentId),
      disabledAt === undefined ? 'active' : `disabled ${disabledAt.slice(0, 10)}`,
    ]);
    const headings = ['NAME', 'ID', 'REMAINING', 'ALLOWANCE', 'CREDITS', 'HELD', 'CREATED', 'BELOW', 'STATE'];
    writeResult(session, { data: rows.map(toAccountBody) }, formatTable(headings, cells));
  });
}

function parseAmount(text: string): bigint {
  try {
    return parseNanodollars(text);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError([`USD: ${error.message}`]);
    throw error;
  }
}
