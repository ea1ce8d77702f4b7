import { formatTable } from '../../cli/models/format-table.ts';
import { toChangeBody } from '../ledger/bodies.ts';
import { type CommandContext, findAccount, withBooks, writeResult } from './command-context.ts';

const defaultLimit = 50;

/** `changes`: the log of changes of accounts, keys and budgets. */
export function listChanges(context: CommandContext): Promise<void> {
  const { account, limit = defaultLimit } = context.command.flags;
  return withBooks(context, async (books) => {
    const { ledger } = books;
    const accountId = account === undefined ? undefined : (await findAccount(books, account)).id;
    const rows = await ledger.changes(accountId, limit);
    const cells = rows.map(({ at, actor, action, subject, before, after }) => [
      at,
      actor,
      action,
      subject,
      before ? JSON.stringify(before) : '',
      after ? JSON.stringify(after) : '',
    ]);
    writeResult(
      context,
      { data: rows.map(toChangeBody) },
      formatTable(['AT', 'BY', 'CHANGE', 'OF', 'BEFORE', 'AFTER'], cells),
    );
  });
}
