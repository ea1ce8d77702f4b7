import { pluralize } from '../../words/count.ts';
import { type CommandContext, findAccount, withBooks, writeResult } from './command-context.ts';

/** `cache clear`: takes effect at once on all gateways of the database. */
export function clearStoredAnswers(context: CommandContext): Promise<void> {
  const { account } = context.command.flags;
  return withBooks(context, async (books) => {
    const removed = await books.clearCache(
      account === undefined ? undefined : (await findAccount(books, account)).id,
    );
    writeResult(context, { removed }, `removed ${pluralize(removed, 'stored answer')}\n`);
  });
}
