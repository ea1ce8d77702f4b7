import type { Budget } from './types.ts';
import { advance, type BudgetRow, resetTime } from './window.ts';

/** Reads the state at a time. @param needed an amount that does not fit, for the time when it will */
export function toBudget(row: BudgetRow, at: string, needed = 0n): Budget {
  const state = advance(row, at);
  const { id, owner_id, account_id, period, time_zone, amount, spent, held } = state;
  return {
    id,
    owner: { kind: owner_id === account_id ? 'account' : 'key', id: owner_id },
    accountId: account_id,
    period,
    timeZone: time_zone ?? undefined,
    amount,
    spent,
    held,
    resetsAt: resetTime(state, needed),
  };
}
