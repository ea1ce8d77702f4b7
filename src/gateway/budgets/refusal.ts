import { nanodollarsToJson } from '../catalog/bodies.ts';
import { WireError } from '../../wires/core/error.ts';
import type { Budget } from './types.ts';

/**
 * The 402 of a request that a budget does not cover. A key's budget refuses like a key's cap, an account's like its balance. Of the
 * budget of an account above the caller's own, the caller learns neither its owner nor what others spent.
 * @param accountId the caller's account
 * @param balance of the account that pays, in nanodollars
 */
export function budgetError(budget: Budget, accountId: string, needed: bigint, balance: bigint): WireError {
  const { owner, period, timeZone, amount, spent, held, resetsAt } = budget;
  const remaining = amount - spent - held;
  const per = timeZone === undefined ? `per ${period}` : `per ${period} (${timeZone})`;
  const when = resetsAt === undefined || needed > amount ? '' : ` It allows more at ${resetsAt}.`;
  const isAbove = owner.kind === 'account' && owner.id !== accountId;
  const whose = owner.kind === 'key' ? 'this API key' : `the account ${owner.id}`;
  const state = isAbove
    ? `a budget ${per} of an account above this one does not cover it.`
    : `the budget of ${whose} ${per} has ${remaining > 0n ? remaining : 0n} of ${amount} left: ${spent} are spent and ${held} are held for running requests.`;
  const message = `This request could cost ${needed} nanodollars, and ${state}${when} Ask for fewer tokens, or raise the budget.`;
  const body = {
    id: budget.id,
    owner: owner.kind,
    period,
    time_zone: timeZone ?? null,
    ...(isAbove
      ? {}
      : {
          owner_id: owner.id,
          amount_nanodollars: nanodollarsToJson(amount),
          spent_nanodollars: nanodollarsToJson(spent),
          held_nanodollars: nanodollarsToJson(held),
        }),
    resets_at: resetsAt ?? null,
  };
  return owner.kind === 'key'
    ? new WireError(402, 'key_spend_cap_exceeded', message, { extraMembers: { budget: body } })
    : new WireError(402, 'insufficient_allowance', message, {
        code: 'insufficient_quota',
        extraMembers: { balance_nanodollars: Number(balance), budget: body },
      });
}
