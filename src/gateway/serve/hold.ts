import type { Caller } from '../access/types.ts';
import { budgetError } from '../budgets/refusal.ts';
import {
  billedTokens,
  maxCost,
  costOf,
  estimateCost,
  estimateInputTokens,
  estimateMinCost,
} from '../catalog/price.ts';
import { providerNameOf } from '../upstream/destination.ts';
import type { HedgedAttempt } from '../upstream/types.ts';
import { boundCalls, limitCalls } from '../catalog/hosted-calls.ts';
import type { Candidate } from '../catalog/types.ts';
import type { Cost, Usage } from '../../wires/core/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import { maxMoney } from '../ledger/index.ts';
import type {
  Ledger,
  Nano,
  RecordedAttempt,
  Reservation,
  ReserveResult,
  Settlement,
  StoredAnswer,
} from '../ledger/types.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { OutgoingResponse } from '../../http/deliver.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { type IdempotencyKey, replayAnswer } from './idempotency.ts';
import { capCost, zeroCost } from './receipt.ts';

/** What a hold is placed for. */
export interface HoldRequest {
  readonly caller: Caller;
  readonly facts: RequestFacts;
  readonly wire: string;
  /** The models that may serve the request, in order of preference. */
  readonly candidates: readonly Candidate[];
  /** Output limit of one answer of a candidate, in tokens. */
  readonly maxTokensOf: (candidate: Candidate) => number;
  readonly idempotency: IdempotencyKey | undefined;
  /** When a second deployment may be asked; undefined: never. */
  readonly hedgeDelayMs: number | undefined;
  /** The end user; '' if the request names none. */
  readonly tag: string;
  /** Is told, once, how many tokens the request used. */
  readonly onTokens: (tokens: number) => void;
  /** What the request costs, whichever candidate it is; undefined: what the candidates' prices say. */
  readonly fixedCost?: Cost;
}

/** How a request ended, for its row in the request log. */
export type HoldOutcome = Pick<Settlement, 'status' | 'outcome'> & { readonly answer?: StoredAnswer };

/** All tokens of a request that count, input and output. */
export const totalTokens = ({ fresh, cacheWrite, cacheWrite1h, cacheRead, output }: Usage): number =>
  [fresh, cacheWrite, cacheWrite1h, cacheRead, output].reduce(
    (sum, tokens) => sum + Number(billedTokens(tokens)),
    0,
  );

const isByok = ({ credential }: Candidate) => credential.kind === 'byok';

/** The maximum cost of a candidate for the caller, in nanodollars. */
const maxCostOf = (candidate: Candidate, { facts, maxTokensOf, fixedCost }: HoldRequest): bigint => {
  if (fixedCost) return fixedCost.total;
  return isByok(candidate)
    ? 0n
    : atMost(maxMoney, maxCost({ model: candidate.model, facts, maxTokens: maxTokensOf(candidate) }));
};

const atMost = (limit: bigint, amount: bigint): bigint => (amount < limit ? amount : limit);

/** Estimates the cost of an answer at full length, in nanodollars, to compare deployments. */
export const estimateCostOf = (
  { model, credential }: Candidate,
  facts: RequestFacts,
  maxTokens: number,
): bigint => (credential.kind === 'byok' ? 0n : estimateCost({ model, facts, maxTokens }));

/** The maximum cost of two attempts at the same time; undefined where there is one deployment only. */
function hedgedMax(maxCosts: readonly bigint[]): bigint | undefined {
  const [dearest, next] = maxCosts.toSorted((a, b) => (a < b ? 1 : a > b ? -1 : 0));
  return dearest === undefined || next === undefined ? undefined : atMost(maxMoney, dearest + next);
}

const inputEstimate = (facts: RequestFacts): Usage => ({
  fresh: estimateInputTokens(facts),
  cacheWrite: 0,
  cacheWrite1h: 0,
  cacheRead: 0,
  output: 0,
});

/** The amount that could be held instead; undefined where a smaller one does not help. */
function availableOf(result: ReserveResult): Nano | undefined {
  switch (result.outcome) {
    case 'insufficient_allowance':
      return result.balance;
    case 'key_spend_cap_exceeded':
      return result.remaining;
    case 'budget_exceeded':
      return result.budget.amount - result.budget.spent - result.budget.held;
    default:
      return undefined;
  }
}

/** Parses `x-svc-max-cost-nanousd`, in whole nanodollars. @throws WireError 400 */
function parseCostCeiling(header: string | undefined): bigint | undefined {
  if (header === undefined) return undefined;
  if (!/^\d{1,18}$/.test(header.trim()))
    throw invalidRequest(
      `x-svc-max-cost-nanousd must be a whole number of nanodollars, got '${header.slice(0, 60)}'.`,
      { param: 'x-svc-max-cost-nanousd' },
    );
  return BigInt(header);
}

/** The hold of one request. It is settled or released once. */
export class Hold {
  readonly candidates: readonly Candidate[];
  /** Set where the request may be hedged, and the hold covers both attempts. */
  readonly hedgeDelayMs: number | undefined;
  #hedgedAttempts: readonly HedgedAttempt[] | undefined;
  readonly #ledger: Ledger;
  readonly #incoming: IncomingRequest;
  readonly #holdRequest: HoldRequest;
  readonly #held: bigint;
  #firstByteMs: number | undefined;
  /** The last computed cost: the cost in the receipt is computed first and settled right after. */
  #lastCost: { readonly candidate: Candidate; readonly usage: Usage; readonly cost: Cost } | undefined;

  private constructor(
    ledger: Ledger,
    incoming: IncomingRequest,
    holdRequest: HoldRequest,
    {
      candidates,
      held,
      hedgeDelayMs,
    }: { candidates: readonly Candidate[]; held: bigint; hedgeDelayMs: number | undefined },
  ) {
    this.hedgeDelayMs = hedgeDelayMs;
    this.#ledger = ledger;
    this.#incoming = incoming;
    this.#holdRequest = holdRequest;
    this.#held = held;
    this.candidates = candidates;
  }

  get accountId(): string {
    return this.#holdRequest.caller.accountId;
  }

  get keyId(): string {
    return this.#holdRequest.caller.key.id;
  }

  /** Whether the answer is stored for its idempotency key. */
  get storesAnswer(): boolean {
    return this.#holdRequest.idempotency !== undefined;
  }

  /**
   * Holds the maximum cost of the request. Fallbacks and deployments that cost more than the ceiling or the balance allows are
   * left out, as long as a deployment of the requested model remains.
   * @returns an answer when the request's idempotency key already has one
   * @throws WireError 402: balance, key cap, budget, ceiling; InvalidKeyError; KeyChangedError
   */
  static async place(
    ledger: Ledger,
    incoming: IncomingRequest,
    holdRequest: HoldRequest,
  ): Promise<Hold | OutgoingResponse> {
    const { facts, caller } = holdRequest;
    const maxCosts = new Map(holdRequest.candidates.map((one) => [one, maxCostOf(one, holdRequest)]));
    const maxOf = (candidate: Candidate) => maxCosts.get(candidate) ?? 0n;
    const costCeiling = parseCostCeiling(incoming.header('x-svc-max-cost-nanousd'));
    const [first] = holdRequest.candidates;
    if (!first) throw new Error('a hold needs at least one candidate');
    // The cheapest deployment of the requested model.
    const cheapest = holdRequest.candidates
      .filter(({ model }) => model.id === first.model.id)
      .map(maxOf)
      .reduce((a, b) => (a < b ? a : b));
    const affordable = holdRequest.candidates.filter(
      (one) => costCeiling === undefined || maxOf(one) <= costCeiling,
    );
    const reservationFor = (candidates: readonly Candidate[]): Reservation => {
      const [chosen = first] = candidates;
      const maxAmount = candidates.map(maxOf).reduce((a, b) => (a > b ? a : b), 0n);
      const estimatedAmount =
        holdRequest.fixedCost?.total ??
        (isByok(chosen) ? 0n : estimateMinCost({ model: chosen.model, facts }));
      return {
        requestId: incoming.receipt.requestId,
        accountId: caller.accountId,
        keyId: caller.key.id,
        amount: maxAmount,
        estimate: estimatedAmount < maxAmount ? estimatedAmount : maxAmount,
        requestedModel: facts.model,
        effectiveModel: chosen.model.id,
        provider: chosen.model.provider.id,
        wire: holdRequest.wire,
        stream: facts.stream,
        byok: isByok(chosen),
        tag: holdRequest.tag,
        keyRevision: caller.key.revision,
        isTrial: maxAmount > cheapest,
        ...(holdRequest.idempotency ? { idempotency: holdRequest.idempotency } : {}),
      };
    };
    const refuse = (error: WireError) => {
      const end = { status: error.status, outcome: 'failed' as const };
      const totalMs = performance.now() - incoming.arrivedAt;
      ledger.recordRefusal(reservationFor([first]), {
        ...settlementFields(incoming, first, 0),
        ...end,
        totalMs,
      });
      return error;
    };
    const [preferred] = affordable;
    if (preferred?.model.id !== first.model.id)
      throw refuse(
        new WireError(
          402,
          'cost_ceiling_exceeded',
          `This request could cost ${cheapest} nanodollars, more than the ${costCeiling} of x-svc-max-cost-nanousd. Ask for fewer tokens or raise the ceiling.`,
        ),
      );
    let candidates = affordable;
    let reservation = reservationFor(candidates);
    const bothAttempts = hedgedMax(affordable.filter(({ model }) => model.id === first.model.id).map(maxOf));
    let result: ReserveResult | undefined;
    let hedgeDelayMs: number | undefined;
    if (
      holdRequest.hedgeDelayMs !== undefined &&
      bothAttempts !== undefined &&
      (costCeiling === undefined || bothAttempts <= costCeiling)
    ) {
      const amount = bothAttempts > reservation.amount ? bothAttempts : reservation.amount;
      const hedged = { ...reservation, amount, isTrial: true };
      const tried = await ledger.reserve(hedged);
      // What does not cover both attempts may cover one.
      if (availableOf(tried) === undefined)
        [result, reservation, hedgeDelayMs] = [tried, hedged, holdRequest.hedgeDelayMs];
    }
    result ??= await ledger.reserve(reservation);
    while (hedgeDelayMs === undefined) {
      const available = availableOf(result);
      if (available === undefined || reservation.amount <= cheapest) break;
      // Those that it covers; at last the cheapest one, whose refusal is the caller's answer.
      const limit = available < cheapest ? cheapest : available;
      candidates = candidates.filter((one) => maxOf(one) <= limit);
      reservation = reservationFor(candidates);
      result = await ledger.reserve(reservation);
    }
    const needed = reservation.amount;
    switch (result.outcome) {
      case 'reserved':
        return new Hold(ledger, incoming, holdRequest, { candidates, held: needed, hedgeDelayMs });
      case 'idempotency':
        return replayAnswer(result.claim);
      case 'insufficient_allowance':
        throw refuse(
          new WireError(
            402,
            'insufficient_allowance',
            `This request could cost ${needed} nanodollars, and the balance has ${result.balance} left. Add credits or ask for fewer tokens.`,
            { code: 'insufficient_quota', extraMembers: { balance_nanodollars: Number(result.balance) } },
          ),
        );
      case 'key_spend_cap_exceeded':
        throw refuse(
          new WireError(
            402,
            'key_spend_cap_exceeded',
            `This request could cost ${needed} nanodollars, and this API key may spend ${result.remaining} more. Raise the key's cap or use another key.`,
          ),
        );
      case 'budget_exceeded':
        throw refuse(budgetError(result.budget, caller.accountId, needed, result.balance));
      case 'key_invalid':
        throw new InvalidKeyError();
      case 'key_changed':
        throw new KeyChangedError();
    }
  }

  /** Records the two attempts of a hedged request: the one that was aborted is charged, too. */
  recordHedge(attempts: readonly HedgedAttempt[]): void {
    this.#hedgedAttempts = attempts;
  }

  /**
   * What an attempt beside the settled one costs: where it was aborted, its input, by estimate.
   * @param settled the candidate whose usage is settled
   */
  #costBeside({ candidate, outcome }: HedgedAttempt, settled: Candidate): bigint {
    if (candidate === settled || outcome !== 'aborted' || isByok(candidate)) return 0n;
    return costOf(candidate.model.price, inputEstimate(this.#holdRequest.facts)).total;
  }

  /** Resolves when the hold survives a crash of the machine. Nothing of an answer is sent before. @throws StoreError */
  sync(): Promise<void> {
    return this.#ledger.syncHolds();
  }

  /** Records the time of the answer's first byte. */
  markFirstByte(): void {
    this.#firstByteMs ??= performance.now() - this.#incoming.arrivedAt;
  }

  /** What the caller pays: never more than the held amount. The operator pays the rest. */
  cappedCost(candidate: Candidate, usage: Usage): Cost {
    const cost = this.#uncappedCost(candidate, usage);
    return capCost(cost, cost.total < this.#held ? cost.total : this.#held);
  }

  /** Charges the usage. @returns what the caller paid, in nanodollars */
  async settle(
    candidate: Candidate,
    candidateIndex: number,
    usage: Usage,
    end: HoldOutcome,
  ): Promise<bigint> {
    this.#holdRequest.onTokens(totalTokens(usage));
    const settlement = this.#settlement(candidate, candidateIndex, end);
    const cost = this.#uncappedCost(candidate, usage);
    return this.#recordCharge(
      await this.#ledger.settle(this.#requestId, {
        ...settlement,
        ...this.#recordedAttempts(candidate, cost),
        cost,
        usage,
      }),
    );
  }

  /** Returns the whole hold. @returns what the caller paid: more than 0 only if the request was already settled */
  async release(candidate: Candidate, candidateIndex: number, end: HoldOutcome): Promise<bigint> {
    this.#holdRequest.onTokens(0);
    const settlement = this.#settlement(candidate, candidateIndex, end);
    return this.#recordCharge(
      await this.#ledger.release(this.#requestId, { ...settlement, ...this.#recordedAttempts(candidate) }),
    );
  }

  #recordCharge({ charged }: { readonly charged: bigint }): bigint {
    const { span } = this.#incoming;
    if (span) span.attributes.costNanousd = charged;
    return charged;
  }

  #uncappedCost(candidate: Candidate, usage: Usage): Cost {
    const { fixedCost } = this.#holdRequest;
    if (fixedCost) return fixedCost;
    if (isByok(candidate)) return zeroCost;
    const last = this.#lastCost;
    if (last?.candidate === candidate && last.usage === usage) return last.cost;
    // A provider may report any usage; the ledger stores amounts up to `maxMoney`.
    const { model } = candidate;
    const billed = limitCalls(usage, boundCalls(model, this.#holdRequest.facts));
    const cost = capCost(this.#withHedge(candidate, costOf(model.price, billed)), maxMoney);
    this.#lastCost = { candidate, usage, cost };
    return cost;
  }

  /** Adds the attempt of a hedged request that did not answer. */
  #withHedge(candidate: Candidate, cost: Cost): Cost {
    const hedge = (this.#hedgedAttempts ?? []).reduce(
      (sum, attempt) => sum + this.#costBeside(attempt, candidate),
      0n,
    );
    if (hedge === 0n) return cost;
    return { ...cost, total: cost.total + hedge, components: { ...cost.components, hedge } };
  }

  /** @param cost of the whole request; undefined: it is free */
  #recordedAttempts(candidate: Candidate, cost?: Cost): { readonly attempts?: RecordedAttempt[] } {
    if (!this.#hedgedAttempts) return {};
    const costOfAttempt = (attempt: HedgedAttempt): bigint => {
      if (!cost) return 0n;
      return attempt.candidate === candidate
        ? cost.total - (cost.components.hedge ?? 0n)
        : this.#costBeside(attempt, candidate);
    };
    return {
      attempts: this.#hedgedAttempts.map((attempt) => ({
        provider: providerNameOf(attempt.candidate),
        outcome: attempt.outcome,
        cost: Number(costOfAttempt(attempt)),
      })),
    };
  }

  get #requestId(): string {
    return this.#incoming.receipt.requestId;
  }

  #settlement(
    candidate: Candidate,
    candidateIndex: number,
    { answer, ...end }: HoldOutcome,
  ): Omit<Settlement, 'cost' | 'usage'> {
    return {
      ...settlementFields(this.#incoming, candidate, candidateIndex),
      ...end,
      ...(this.#holdRequest.idempotency && answer ? { answer } : {}),
      totalMs: performance.now() - this.#incoming.arrivedAt,
      firstByteMs: this.#firstByteMs,
    };
  }
}

/** The key was revoked or disabled or expired between the request's arrival and its reservation. */
export class InvalidKeyError extends Error {}

/** The key's settings were changed between the request's arrival and its reservation. */
export class KeyChangedError extends Error {}

export const endpointOf = ({ credential }: Candidate): string =>
  credential.kind === 'byok' ? `byok:${credential.provider}` : 'credits';

function settlementFields({ receipt }: IncomingRequest, candidate: Candidate, candidateIndex: number) {
  return {
    effectiveModel: candidate.model.id,
    provider: candidate.model.provider.id,
    reason: candidateIndex > 0 ? ('provider_failover' as const) : receipt.reason,
    endpoint: endpointOf(candidate),
    pricingIdentity: candidate.model.price.identity,
    firstByteMs: undefined,
  };
}
