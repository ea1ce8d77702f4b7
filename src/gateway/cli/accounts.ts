import { columns } from '../../cli/models/columns.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { balanceBody, jsonNano } from '../catalog/bodies.ts';
import { LedgerError } from '../ledger/errors.ts';
import type { AccountRow } from '../ledger/types.ts';
import { dollars, nanoOf } from './money.ts';
import { accountNamed, answer, note, type Session, whereBooksAre, withBooks, word } from './session.ts';

const accountBody = ({ id, name, createdAt, balance, held }: AccountRow) => ({
  id,
  name,
  created_at: createdAt,
  balance: balanceBody(balance),
  held_nanodollars: jsonNano(held),
});

export function createAccount(session: Session): Promise<void> {
  const { 'credit-usd': credit, 'included-usd': included } = session.command.flags;
  return withBooks(session, async ({ ledger }) => {
    const row = await ledger.createAccount(word(session, 0), {
      ...(credit === undefined ? {} : { credit }),
      ...(included === undefined ? {} : { included }),
    });
    answer(
      session,
      accountBody(row),
      `the account ${row.name} is ${row.id}, with ${dollars(row.balance.remaining)}\n`,
    );
  });
}

export function creditAccount(session: Session): Promise<void> {
  const { note: why } = session.command.flags;
  const amount = amountOf(word(session, 1));
  return withBooks(session, async ({ ledger }) => {
    const { id, name } = await accountNamed(session, ledger, word(session, 0));
    const row = await ledger.credit(id, amount, why).catch(async (error: unknown) => {
      if (!(error instanceof LedgerError) || error.code !== 'balance_too_low') throw error;
      const { balance } = await accountNamed(session, ledger, id);
      throw new StartError(
        `${name} has ${dollars(balance.remaining)} free; ${dollars(-amount)} cannot be taken from it`,
      );
    });
    answer(session, accountBody(row), `${row.name} has ${dollars(row.balance.remaining)} now\n`);
  });
}

export function listAccounts(session: Session): Promise<void> {
  return withBooks(session, async ({ ledger }) => {
    const rows = await ledger.accounts();
    if (rows.length === 0) note(session, `there are no accounts ${await whereBooksAre(session)}`);
    const cells = rows.map(({ id, name, createdAt, balance, held }) => [
      name,
      id,
      dollars(balance.remaining),
      dollars(balance.allowanceRemaining),
      dollars(balance.creditsRemaining),
      dollars(held),
      createdAt.slice(0, 10),
    ]);
    const headings = ['NAME', 'ID', 'REMAINING', 'ALLOWANCE', 'CREDITS', 'HELD', 'CREATED'];
    answer(session, { data: rows.map(accountBody) }, columns(headings, cells));
  });
}

function amountOf(text: string): bigint {
  try {
    return nanoOf(text);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError([`USD: ${error.message}`]);
    throw error;
  }
}
