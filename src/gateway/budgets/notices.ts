import { randomBytes } from 'node:crypto';
import { nanodollarsToJson } from '../catalog/bodies.ts';
import { formatDollars } from '../ledger/money.ts';
import type { NoticeMembers } from '../../tracing/index.ts';
import type { Row } from '../store/index.ts';
import type { Budget } from './types.ts';

/** Percent of a budget; once they are spent, a notice is given. */
export const noticeThresholds = [50, 80, 100] as const;

/** What a notice is about: a threshold was reached, or the first request of a period was refused. */
export type NoticeReason = (typeof noticeThresholds)[number] | 'refused';

export interface BudgetNotice {
  readonly reason: NoticeReason;
  /** The budget at that time. */
  readonly budget: Budget;
  readonly at: string;
}

/** The notices that a period had, by their reason: when they were given, in ms since 1970. */
export type Noticed = Readonly<Partial<Record<NoticeReason, number>>>;

export const parseNoticed = (text: string | null): Noticed =>
  text === null ? {} : (JSON.parse(text) as Noticed);

export const formatNoticed = (noticed: Noticed): string | null =>
  Object.keys(noticed).length === 0 ? null : JSON.stringify(noticed);

/** The thresholds that are reached, and that the period had no notice of. */
export const newThresholds = (
  { amount, spent }: Pick<Budget, 'amount' | 'spent'>,
  noticed: Noticed,
): NoticeReason[] =>
  noticeThresholds.filter(
    (percent) => spent > 0n && spent * 100n >= amount * BigInt(percent) && noticed[percent] === undefined,
  );

const typeOf = (reason: NoticeReason): string =>
  reason === 'refused' ? 'budget.refused' : 'budget.threshold_reached';

/** The row of a notice that waits to be posted; its id lets receivers recognize it if they get it twice. */
export function toNoticeRow({ reason, budget, at }: BudgetNotice): Row<'gateway_notices'> {
  const body = {
    type: typeOf(reason),
    timestamp: at,
    data: {
      budget_id: budget.id,
      owner: budget.owner.kind,
      owner_id: budget.owner.id,
      account: budget.accountId,
      period: budget.period,
      time_zone: budget.timeZone ?? null,
      ...(reason === 'refused' ? {} : { threshold_percent: reason }),
      amount_nanodollars: nanodollarsToJson(budget.amount),
      spent_nanodollars: nanodollarsToJson(budget.spent),
      held_nanodollars: nanodollarsToJson(budget.held),
      resets_at: budget.resetsAt ?? null,
    },
  };
  const id = `n_${randomBytes(12).toString('hex')}`;
  return { id, at, body: JSON.stringify(body), attempts: 0n, next_at: at };
}

/** The notice as a sentence for the operator's log. */
export function noticeText({ reason, budget }: BudgetNotice): string {
  const { id, owner, period, amount, spent, held, resetsAt } = budget;
  const what =
    reason === 'refused' ? 'refused a request for the first time in this period' : `has reached ${reason} %`;
  const resets = resetsAt === undefined ? '' : `; it allows more at ${resetsAt}`;
  return `the budget ${id} of the ${owner.kind} ${owner.id} per ${period} ${what}: ${formatDollars(spent)} of ${formatDollars(amount)} are spent, ${formatDollars(held)} are held${resets}`;
}

/** The notice as members of the JSON log. */
export const noticeMembers = ({ reason, budget }: BudgetNotice): NoticeMembers => ({
  code: typeOf(reason),
  budget_id: budget.id,
  owner: budget.owner.kind,
  owner_id: budget.owner.id,
  account_id: budget.accountId,
  period: budget.period,
  threshold_percent: reason === 'refused' ? undefined : reason,
  amount_nanodollars: nanodollarsToJson(budget.amount),
  spent_nanodollars: nanodollarsToJson(budget.spent),
  held_nanodollars: nanodollarsToJson(budget.held),
  resets_at: budget.resetsAt,
});
