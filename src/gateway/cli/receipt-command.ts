import type { z } from 'zod';
import { formatTable } from '../../cli/models/format-table.ts';
import { formatDollars } from '../ledger/money.ts';
import type { requestRecordSchema } from '../operator/request-bodies.ts';
import { type CommandContext, positional, withBooks, writeResult } from './command-context.ts';

/** `receipt`: one request of any key, with its hold, its cost and what it moved between accounts. */
export function showReceipt(context: CommandContext): Promise<void> {
  return withBooks(context, async (books) => {
    const request = await books.requestRecord(positional(context, 0));
    const names = new Map((await books.ledger.accounts()).map(({ id, name }) => [id, name]));
    writeResult(
      context,
      request,
      textOf(request, (id) => (names.has(id) ? `${names.get(id)} (${id})` : id)),
    );
  });
}

const dollars = (nano: number): string => formatDollars(BigInt(nano));

function textOf(
  { receipt, hold, entries, ...request }: z.infer<typeof requestRecordSchema>,
  nameOf: (account: string) => string,
): string {
  const facts: (readonly [name: string, value: string | number | null | undefined])[] = [
    ['request', request.request_id],
    ['state', request.state],
    ['status', receipt?.status],
    ['outcome', receipt?.outcome],
    ['account', nameOf(request.account)],
    ['key', request.key],
    ['requested model', request.requested_model],
    ['effective model', request.effective_model],
    ['provider', request.provider],
    ['reason', receipt?.reason],
    ['started', receipt?.started_at ?? hold?.placed_at],
    ['ended', receipt?.ended_at],
    ['prompt tokens', receipt?.usage?.prompt_tokens],
    ['completion tokens', receipt?.usage?.completion_tokens],
    ['held', hold && dollars(hold.amount_nanodollars)],
    ['cost', request.cost_nanodollars === null ? null : dollars(request.cost_nanodollars)],
    ['charged', receipt && dollars(receipt.cost_nanousd)],
    ['overrun', request.overrun_nanodollars ? dollars(request.overrun_nanodollars) : null],
    ...(receipt?.attempts ?? []).map(
      ({ provider, outcome, cost_nanousd: cost }, index) =>
        [`attempt ${index + 1}`, `${provider}: ${outcome}, ${dollars(cost)}`] as const,
    ),
    ...entries.map(
      ({ account, amount_nanodollars: amount }) =>
        ['entry', `${nameOf(account)} ${amount < 0 ? '' : '+'}${dollars(amount)}`] as const,
    ),
  ];
  const shown = facts.flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [[name, String(value)]],
  );
  return formatTable(['FIELD', 'VALUE'], shown);
}
