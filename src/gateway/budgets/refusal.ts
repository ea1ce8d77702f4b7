import { nanodollarsToJson } from '../catalog/bodies.ts';
import { WireError } from '../../wires/core/error.ts';
import type { Budget } from './types.ts';

/**
 * The 402 of a request that a budget does not cover. A key's budget refuses like a key's cap, an account's like its balance.
 * @param balance of the account that pays, in nanodollars
 */
export function budgetError(budget: Budget, needed: bigint, balance: bigint): WireError {
  const { owner, period, timeZone, amount, spent, held, resetsAt } = budget;
  const whose = owner.kind === 'key' ? 'this API key' : `the account ${owner.id}`;
  const remaining = amount - spent - held;
  const per = timeZone === undefined ? `per ${period}` : `per ${period} (${timeZone})`;
  const when = resetsAt === undefined ? '' : ` It allows more at ${resetsAt}.`;
  const message = `This request could cost ${needed} nanodollars, and the budget of ${whose} ${per} has ${remaining > 0n ? remaining : 0n} of ${amount} left: ${spent} are spent and ${held} are held for running requests.${when} Ask for fewer tokens, or raise the budget.`;
  const body = {
    id: budget.id,
    owner: owner.kind,
    owner_id: owner.id,
    period,
    time_zone: timeZone ?? null,
    amount_nanodollars: nanodollarsToJson(amount),
    spent_nanodollars: nanodollarsToJson(spent),
    held_nanodollars: nanodollarsToJson(held),
    resets_at: resetsAt ?? null,
  };
  return owner.kind === 'key'
    ? new WireError(402, 'key_spend_cap_exceeded', message, { extraMembers: { budget: body } })
    : new WireError(402, 'insufficient_allowance', message, {
        code: 'insufficient_quota',
        extraMembers: { balance_nanodollars: Number(balance), budget: body },
      });
}
