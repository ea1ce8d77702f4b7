import { keepable, type Row } from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type { Reservation, Reserved, Settled, Settlement } from './types.ts';

export type HoldRow = Row<'gateway_holds'>;
export type RequestRow = Row<'gateway_requests'>;

/** What a request's row has beside what its hold had. */
export type EndRow = Omit<RequestRow, keyof HoldRow | 'id' | 'charged' | 'overrun'>;

/** What shares commits. A hold never changes: it is as it was made, or gone. Each may be done twice, and then changes nothing the second time. */
export type Operation =
  | { readonly kind: 'reserve'; readonly hold: HoldRow; readonly bodyHash: string | undefined }
  | {
      readonly kind: 'finish';
      readonly requestId: string;
      /** Undefined where there is none any more, or never was. */
      readonly hold: HoldRow | undefined;
      /** Also says anew who served it. */
      readonly end: EndRow & Partial<Pick<RequestRow, 'effective_model' | 'provider'>>;
      /** For the idempotency key, where the request has one. */
      readonly claim: ClaimEnd;
    }
  | { readonly kind: 'note'; readonly request: RequestRow }
  /** Its gateway died: settled by estimate, unless it is settled already. */
  | { readonly kind: 'crash'; readonly hold: HoldRow; readonly at: string }
  /** Nobody knows whether its reservation was saved, and nobody was told that it was. */
  | { readonly kind: 'undo'; readonly hold: HoldRow }
  /** This gateway lives. */
  | { readonly kind: 'beat' };

export type ClaimEnd =
  | { readonly state: 'done'; readonly answer: string }
  | { readonly state: 'gone' }
  | { readonly state: 'free' };

export type Result = Reserved | Settled | { readonly done: boolean };

/** The longest answer that is kept for an idempotency key, in characters. */
const longestAnswer = 4 * 1024 * 1024;
/** Above all money there is, and a sum of millions of them still fits 64 bits. */
export const mostMoney = 10n ** 15n;

export const noTokens = {
  tokens_fresh: null,
  tokens_cache_write: null,
  tokens_cache_write_1h: null,
  tokens_cache_read: null,
  tokens_output: null,
  tokens_reasoning: null,
};
const noCost = { total: 0n, components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n } };

/** @throws LedgerError */
export function holdRow(reservation: Reservation, replicaId: string, at: string): HoldRow {
  const { amount, estimate, requestId } = reservation;
  for (const [name, money] of Object.entries({ amount, estimate }))
    if (money < 0n || money > mostMoney)
      throw invalid(requestId, `${name} must be from 0 to ${mostMoney} nanodollars, got ${money}`);
  return {
    request_id: requestId,
    account_id: reservation.accountId,
    key_id: reservation.keyId,
    requested_model: keepable(reservation.requestedModel),
    effective_model: keepable(reservation.effectiveModel),
    provider: reservation.provider,
    wire: reservation.wire,
    stream: reservation.stream ? 1n : 0n,
    byok: reservation.byok ? 1n : 0n,
    amount,
    estimate,
    // As it will be found again.
    idempotency_key: reservation.idempotency ? keepable(reservation.idempotency.key) : null,
    replica_id: replicaId,
    reserved_at: at,
  };
}

/** Of a request that came to something, or to nothing: then without cost and usage. @throws LedgerError */
export function endRow(
  requestId: string,
  ended: 'settled' | 'released' | 'refused',
  settlement: Omit<Settlement, 'cost' | 'usage'> & Partial<Pick<Settlement, 'cost' | 'usage'>>,
  at: string,
): EndRow & Pick<RequestRow, 'effective_model' | 'provider'> {
  const { usage, cost = noCost } = settlement;
  const { fresh, cache_write, cache_read, output } = cost.components;
  const parts = [fresh, cache_write, cache_read, output];
  if (parts.reduce((sum, part) => sum + part, 0n) !== cost.total || parts.some((part) => part < 0n))
    throw invalid(requestId, `the parts of its cost (${parts.join(', ')}) must add up to ${cost.total}`);
  if (cost.total > mostMoney)
    throw invalid(requestId, `its cost must be at most ${mostMoney} nanodollars, got ${cost.total}`);
  return {
    ended,
    ended_at: at,
    effective_model: keepable(settlement.effectiveModel),
    provider: settlement.provider,
    cost: cost.total,
    cost_fresh: fresh,
    cost_cache_write: cache_write,
    cost_cache_read: cache_read,
    cost_output: output,
    ...(usage
      ? {
          tokens_fresh: whole(usage.fresh),
          tokens_cache_write: whole(usage.cacheWrite),
          tokens_cache_write_1h: whole(usage.cacheWrite1h),
          tokens_cache_read: whole(usage.cacheRead),
          tokens_output: whole(usage.output),
          tokens_reasoning: usage.reasoning === undefined ? null : whole(usage.reasoning),
        }
      : noTokens),
    endpoint: settlement.endpoint,
    status: whole(settlement.status),
    outcome: settlement.outcome,
    reason: settlement.reason,
    total_ms: whole(settlement.totalMs),
    pricing_identity: settlement.pricingIdentity ?? null,
    first_byte_ms: settlement.firstByteMs === undefined ? null : whole(settlement.firstByteMs),
  };
}

/** What was charged is never charged again; what cost nothing may be tried again where no answer is kept. */
export function claimEnd(answer: Settlement['answer'], charged: boolean): ClaimEnd {
  if (answer && answer.body.length <= longestAnswer) return { state: 'done', answer: JSON.stringify(answer) };
  return { state: answer || charged ? 'gone' : 'free' };
}

const invalid = (requestId: string, fault: string) =>
  new LedgerError('invalid', `Request ${requestId} cannot be booked: ${fault}.`);

/** As a provider may have said it: one number that the database cannot hold would undo the whole commit. */
const whole = (count: number): bigint =>
  BigInt(Math.round(Math.min(Math.max(count || 0, 0), Number.MAX_SAFE_INTEGER)));
