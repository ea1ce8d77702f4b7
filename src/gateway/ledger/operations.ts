import { toStorableText, type Row } from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type {
  RequestDetails,
  RequestRow,
  Reservation,
  ReserveResult,
  SettleResult,
  Settlement,
} from './types.ts';

export type HoldRow = Row<'gateway_holds'>;

/** The columns of a request's row that its hold does not have. */
export type RequestEndRow = Omit<RequestRow, keyof HoldRow | 'id' | 'charged' | 'overrun'>;

/** The columns of a hold that the request's row has as well. */
export function toRequestColumns(hold: HoldRow) {
  const { request_id: id, budgets: _budgets, ...columns } = hold;
  return { id, ...columns };
}

/**
 * Operations that share commits. A hold is never changed, only created and deleted. Every operation is idempotent: done
 * twice, it changes nothing the second time.
 */
export type Operation =
  | {
      readonly kind: 'reserve';
      readonly hold: HoldRow;
      readonly bodyHash: string | undefined;
      /** The revision of the key that the request was checked against; undefined: any. */
      readonly keyRevision: bigint | undefined;
      /** A budget that refuses it gives no notice. */
      readonly isTrial: boolean;
    }
  | {
      readonly kind: 'finish';
      readonly requestId: string;
      /** Undefined when there is no hold, or no longer one. */
      readonly hold: HoldRow | undefined;
      /** May replace the model and the provider of the hold. */
      readonly end: RequestEndRow & Partial<Pick<RequestRow, 'effective_model' | 'provider'>>;
      /** For the request's idempotency key, if it has one. */
      readonly claim: ClaimOutcome;
    }
  | { readonly kind: 'note'; readonly request: RequestRow }
  /** The request's gateway died: it is settled by estimate, unless it is already settled. */
  | { readonly kind: 'crash'; readonly hold: HoldRow; readonly at: string }
  /** Removes a reservation whose commit has an unknown outcome and that was reported as failed. */
  | { readonly kind: 'undo'; readonly hold: HoldRow }
  /** Heartbeat of this gateway. */
  | { readonly kind: 'beat' };

export type ClaimOutcome =
  | { readonly state: 'done'; readonly answer: string }
  | { readonly state: 'gone' }
  | { readonly state: 'free' };

export type OperationResult = ReserveResult | SettleResult | { readonly done: boolean };

/** The longest answer that is stored for an idempotency key, in characters. */
const maxAnswerChars = 4 * 1024 * 1024;
/** Upper limit of one amount, in nanodollars: a million dollars. The sum of thousands of them still fits 64 bits. */
export const maxMoney = 10n ** 15n;

export const noTokens = {
  tokens_fresh: null,
  tokens_cache_write: null,
  tokens_cache_write_1h: null,
  tokens_cache_read: null,
  tokens_output: null,
  tokens_reasoning: null,
};
/** Costs of a request besides tokens. */
export const noExtras = { cost_tools: 0n, cost_hedge: 0n, details: null };
const zeroCost: Settlement['cost'] = {
  total: 0n,
  components: { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n },
};

/** @throws LedgerError */
export function toHoldRow(reservation: Reservation, replicaId: string, at: string): HoldRow {
  const { amount, estimate, requestId } = reservation;
  for (const [name, money] of Object.entries({ amount, estimate }))
    if (money < 0n || money > maxMoney)
      throw invalid(requestId, `${name} must be from 0 to ${maxMoney} nanodollars, got ${money}`);
  return {
    request_id: requestId,
    account_id: reservation.accountId,
    key_id: reservation.keyId,
    requested_model: toStorableText(reservation.requestedModel),
    effective_model: toStorableText(reservation.effectiveModel),
    provider: reservation.provider,
    wire: reservation.wire,
    stream: reservation.stream ? 1n : 0n,
    byok: reservation.byok ? 1n : 0n,
    amount,
    estimate,
    // Stored in the form in which it is looked up.
    idempotency_key: reservation.idempotency ? toStorableText(reservation.idempotency.key) : null,
    replica_id: replicaId,
    reserved_at: at,
    tag: toStorableText(reservation.tag ?? ''),
    budgets: null,
  };
}

/** Builds the end columns of a request. Released and refused requests have no cost and usage. @throws LedgerError */
export function toRequestEndRow(
  requestId: string,
  ended: 'settled' | 'released' | 'refused',
  settlement: Omit<Settlement, 'cost' | 'usage'> & Partial<Pick<Settlement, 'cost' | 'usage'>>,
  at: string,
): RequestEndRow & Pick<RequestRow, 'effective_model' | 'provider'> {
  const { usage, cost = zeroCost } = settlement;
  const { fresh, cache_write, cache_read, output, tools = 0n, hedge = 0n } = cost.components;
  const components = [fresh, cache_write, cache_read, output, tools, hedge];
  if (components.reduce((sum, part) => sum + part, 0n) !== cost.total || components.some((part) => part < 0n))
    throw invalid(
      requestId,
      `the components of its cost (${components.join(', ')}) must add up to ${cost.total}`,
    );
  if (cost.total > maxMoney)
    throw invalid(requestId, `its cost must be at most ${maxMoney} nanodollars, got ${cost.total}`);
  return {
    ended,
    ended_at: at,
    effective_model: toStorableText(settlement.effectiveModel),
    provider: settlement.provider,
    cost: cost.total,
    cost_fresh: fresh,
    cost_cache_write: cache_write,
    cost_cache_read: cache_read,
    cost_output: output,
    cost_tools: tools,
    cost_hedge: hedge,
    details: toDetails(cost, settlement.attempts),
    ...(usage
      ? {
          tokens_fresh: toWholeNumber(usage.fresh),
          tokens_cache_write: toWholeNumber(usage.cacheWrite),
          tokens_cache_write_1h: toWholeNumber(usage.cacheWrite1h),
          tokens_cache_read: toWholeNumber(usage.cacheRead),
          tokens_output: toWholeNumber(usage.output),
          tokens_reasoning: usage.reasoning === undefined ? null : toWholeNumber(usage.reasoning),
        }
      : noTokens),
    endpoint: settlement.endpoint,
    status: toWholeNumber(settlement.status),
    outcome: settlement.outcome,
    reason: settlement.reason,
    total_ms: toWholeNumber(settlement.totalMs),
    pricing_identity: settlement.pricingIdentity ?? null,
    first_byte_ms: settlement.firstByteMs === undefined ? null : toWholeNumber(settlement.firstByteMs),
  };
}

function toDetails(
  { tier, lines = [] }: Settlement['cost'],
  attempts: Settlement['attempts'],
): string | null {
  const details: RequestDetails = {
    ...(tier ? { tier } : {}),
    ...(lines.length > 0 ? { lines: lines.map((line) => ({ ...line, cost: Number(line.cost) })) } : {}),
    ...(attempts ? { attempts } : {}),
  };
  return Object.keys(details).length > 0 ? JSON.stringify(details) : null;
}

/**
 * What becomes of the idempotency key. A charged request is never repeated; one that cost nothing frees the key if no
 * answer is stored.
 */
export function claimOutcomeFor(answer: Settlement['answer'], charged: boolean): ClaimOutcome {
  if (answer && answer.body.length <= maxAnswerChars)
    return { state: 'done', answer: JSON.stringify(answer) };
  return { state: answer || charged ? 'gone' : 'free' };
}

const invalid = (requestId: string, problem: string) =>
  new LedgerError('invalid', `Request ${requestId} cannot be recorded: ${problem}.`);

/** Clamps a number from a provider: one value that the database cannot store would fail the whole commit. */
const toWholeNumber = (count: number): bigint =>
  BigInt(Math.round(Math.min(Math.max(count || 0, 0), Number.MAX_SAFE_INTEGER)));
