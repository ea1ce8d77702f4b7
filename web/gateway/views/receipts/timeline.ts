import type { RequestRecord } from '../../api.ts';
import { formatExactMoney } from '../../format.ts';

interface TimelineEvent {
  /** RFC 3339; undefined: not recorded. */
  readonly at: string | undefined;
  readonly title: string;
  readonly text: string;
  readonly isBad: boolean;
}

/** What happened to a request, in order. */
export function timelineOf({ hold, receipt, state, ...request }: RequestRecord): TimelineEvent[] {
  const events: TimelineEvent[] = [];
  const add = (title: string, text: string, at?: string, isBad = false) =>
    events.push({ at, title, text, isBad });
  if (hold)
    add(
      'Hold placed',
      `${formatExactMoney(hold.amount_nanodollars)}, the most that it could cost. Gateway ${hold.gateway}.`,
      hold.placed_at,
    );
  for (const [index, { provider, outcome, cost_nanousd: cost }] of (receipt?.attempts ?? []).entries())
    add(
      index === 0 ? 'First attempt' : 'Hedged attempt',
      `${provider}: ${outcome}, ${formatExactMoney(cost)}.`,
      undefined,
      outcome === 'failed',
    );
  if (receipt?.reason === 'provider_failover')
    add(
      'Fallback',
      `${request.requested_model} failed; ${request.effective_model} at ${request.provider} answered.`,
    );
  else if (receipt?.reason === 'cached') add('Stored answer', 'It was answered from the cache of answers.');
  else if (receipt?.outcome === 'completed' && !receipt.attempts)
    add('Answered', `${request.effective_model} at ${request.provider}.`);
  if (!receipt) {
    add('Running', `Sent to ${request.provider}. The hold is settled when the answer ends.`);
    return events;
  }
  if (receipt.outcome !== 'completed' && state !== 'crash' && state !== 'refused')
    add(...failureOf(receipt.outcome, receipt.status), receipt.ended_at, receipt.outcome !== 'client_gone');
  const charged = formatExactMoney(receipt.cost_nanousd);
  if (state === 'settled') {
    add('Settled', `${charged} charged; the rest of the hold is free again.`, receipt.ended_at);
    if (request.overrun_nanodollars)
      add(
        'Overrun',
        `It cost ${formatExactMoney(request.overrun_nanodollars)} more than was held; the operator pays that.`,
        receipt.ended_at,
        true,
      );
  } else if (state === 'released')
    add('Released', 'Nothing is charged; the whole hold is free again.', receipt.ended_at);
  else if (state === 'crash')
    add(
      'Gateway died',
      `The estimate of ${charged} was charged after its gateway died.`,
      receipt.ended_at,
      true,
    );
  else if (state === 'refused')
    add('Refused', 'It was not sent to a provider, and nothing is charged.', receipt.ended_at, true);
  return events;
}

const failureOf = (outcome: string | null, status: number | null): [title: string, text: string] =>
  outcome === 'client_gone'
    ? ['Cancelled', 'The caller closed the connection.']
    : outcome === 'cut'
      ? ['Cut off', 'The provider broke off its answer.']
      : ['Failed', status === null ? 'The request failed.' : `The caller got status ${status}.`];
