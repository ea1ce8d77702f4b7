import type { Caller } from '../access/types.ts';
import { bound, cost as costOf, estimate } from '../catalog/price.ts';
import type { Candidate } from '../catalog/types.ts';
import type { Cost, Usage } from '../../wires/core/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import { mostMoney } from '../ledger/index.ts';
import type { Ledger, Reservation, Settlement, StoredAnswer } from '../ledger/types.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { Answer } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { type IdempotencyKey, replay } from './idempotency.ts';
import { chargedOf, noCost } from './receipt.ts';

/** What a hold is placed for. */
export interface Order {
  readonly caller: Caller;
  readonly facts: RequestFacts;
  readonly wire: string;
  /** The models that may serve the request, in order of preference. */
  readonly candidates: readonly Candidate[];
  /** Output limit of one answer of a candidate, in tokens. */
  readonly maxTokensOf: (candidate: Candidate) => number;
  readonly idempotency: IdempotencyKey | undefined;
}

/** How a request ended, for its row in the request log. */
export type End = Pick<Settlement, 'status' | 'outcome'> & { readonly answer?: StoredAnswer };

const isByok = ({ credential }: Candidate) => credential.kind === 'byok';

/** The maximum cost of a candidate for the caller, in nanodollars. */
const boundOf = (candidate: Candidate, { facts, maxTokensOf }: Order): bigint =>
  isByok(candidate) ? 0n : bound({ model: candidate.model, facts, maxTokens: maxTokensOf(candidate) });

/** Parses `x-svc-max-cost-nanousd`, in whole nanodollars. @throws WireError 400 */
function ceilingOf(header: string | undefined): bigint | undefined {
  if (header === undefined) return undefined;
  if (!/^\d{1,18}$/.test(header.trim()))
    throw invalidRequest(
      `x-svc-max-cost-nanousd must be a whole number of nanodollars, got '${header.slice(0, 60)}'.`,
      { param: 'x-svc-max-cost-nanousd' },
    );
  return BigInt(header);
}

/** The hold of one request. It is settled or released once. */
export class Purchase {
  readonly candidates: readonly Candidate[];
  readonly #ledger: Ledger;
  readonly #asked: Asked;
  readonly #order: Order;
  readonly #held: bigint;
  #firstByteMs: number | undefined;
  /** The last computed cost: the cost in the receipt is computed first and settled right after. */
  #reckoned: { readonly candidate: Candidate; readonly usage: Usage; readonly cost: Cost } | undefined;

  private constructor(
    ledger: Ledger,
    asked: Asked,
    order: Order,
    { candidates, held }: { candidates: readonly Candidate[]; held: bigint },
  ) {
    this.#ledger = ledger;
    this.#asked = asked;
    this.#order = order;
    this.#held = held;
    this.candidates = candidates;
  }

  get accountId(): string {
    return this.#order.caller.accountId;
  }

  get keyId(): string {
    return this.#order.caller.key.id;
  }

  /** Whether the answer is stored for its idempotency key. */
  get keeps(): boolean {
    return this.#order.idempotency !== undefined;
  }

  /**
   * Holds the maximum cost of the request. Fallbacks that cost more than the ceiling or the balance allows are left out.
   * @returns an answer when the request's idempotency key already has one
   * @throws WireError 402 of three kinds: balance, key cap, ceiling
   */
  static async open(ledger: Ledger, asked: Asked, order: Order): Promise<Purchase | Answer> {
    const { facts, caller } = order;
    const bounds = new Map(order.candidates.map((one) => [one, boundOf(one, order)]));
    const mostOf = (candidate: Candidate) => bounds.get(candidate) ?? 0n;
    const ceiling = ceilingOf(asked.header('x-svc-max-cost-nanousd'));
    const [first] = order.candidates;
    if (!first) throw new Error('a hold needs at least one candidate');
    const fits = order.candidates.filter((one) => ceiling === undefined || mostOf(one) <= ceiling);
    const reservation = (candidates: readonly Candidate[]): Reservation => {
      const [chosen = first] = candidates;
      const most = candidates.map(mostOf).reduce((a, b) => (a > b ? a : b), 0n);
      const likely = isByok(chosen) ? 0n : estimate({ model: chosen.model, facts });
      return {
        requestId: asked.receipt.requestId,
        accountId: caller.accountId,
        keyId: caller.key.id,
        amount: most,
        estimate: likely < most ? likely : most,
        requestedModel: facts.model,
        effectiveModel: chosen.model.id,
        provider: chosen.model.provider.id,
        wire: order.wire,
        stream: facts.stream,
        byok: isByok(chosen),
        ...(order.idempotency ? { idempotency: order.idempotency } : {}),
      };
    };
    const refuse = (error: WireError) => {
      const end = { status: error.status, outcome: 'failed' as const };
      const totalMs = performance.now() - asked.arrivedAt;
      ledger.note(reservation([first]), { ...recordOf(asked, first, 0), ...end, totalMs });
      return error;
    };
    if (fits[0] !== first)
      throw refuse(
        new WireError(
          402,
          'cost_ceiling_exceeded',
          `This request could cost ${mostOf(first)} nanodollars, more than the ${ceiling} of x-svc-max-cost-nanousd. Ask for fewer tokens or raise the ceiling.`,
        ),
      );
    let candidates = fits;
    let wanted = reservation(candidates);
    let reserved = await ledger.reserve(wanted);
    if (
      reserved.outcome !== 'reserved' &&
      reserved.outcome !== 'idempotency' &&
      mostOf(first) < wanted.amount
    ) {
      candidates = candidates.filter((one) => mostOf(one) <= mostOf(first));
      wanted = reservation(candidates);
      reserved = await ledger.reserve(wanted);
    }
    const needed = wanted.amount;
    switch (reserved.outcome) {
      case 'reserved':
        return new Purchase(ledger, asked, order, { candidates, held: needed });
      case 'idempotency':
        return replay(reserved.found);
      case 'insufficient_allowance':
        throw refuse(
          new WireError(
            402,
            'insufficient_allowance',
            `This request could cost ${needed} nanodollars, and the balance has ${reserved.balance} left. Add credits or ask for fewer tokens.`,
            { code: 'insufficient_quota', more: { balance_nanodollars: Number(reserved.balance) } },
          ),
        );
      case 'key_spend_cap_exceeded':
        throw refuse(
          new WireError(
            402,
            'key_spend_cap_exceeded',
            `This request could cost ${needed} nanodollars, and this API key may spend ${reserved.remaining} more. Raise the key's cap or use another key.`,
          ),
        );
      case 'key_invalid':
        throw new KeyInvalid();
    }
  }

  /** Records the time of the answer's first byte. */
  began(): void {
    this.#firstByteMs ??= performance.now() - this.#asked.arrivedAt;
  }

  /** What the caller pays: never more than the held amount. The operator pays the rest. */
  costOf(candidate: Candidate, usage: Usage): Cost {
    const cost = this.#fullCost(candidate, usage);
    return chargedOf(cost, cost.total < this.#held ? cost.total : this.#held);
  }

  /** Charges the usage. @returns what the caller paid, in nanodollars */
  async settle(candidate: Candidate, place: number, usage: Usage, end: End): Promise<bigint> {
    const settlement = this.#settlement(candidate, place, end);
    const cost = this.#fullCost(candidate, usage);
    return this.#charged(await this.#ledger.settle(this.#requestId, { ...settlement, cost, usage }));
  }

  /** Returns the whole hold. @returns what the caller paid: more than 0 only if the request was already settled */
  async release(candidate: Candidate, place: number, end: End): Promise<bigint> {
    const settlement = this.#settlement(candidate, place, end);
    return this.#charged(await this.#ledger.release(this.#requestId, settlement));
  }

  #charged({ charged }: { readonly charged: bigint }): bigint {
    const { told } = this.#asked;
    if (told) told.facts.costNanousd = charged;
    return charged;
  }

  #fullCost(candidate: Candidate, usage: Usage): Cost {
    if (isByok(candidate)) return noCost;
    const known = this.#reckoned;
    if (known?.candidate === candidate && known.usage === usage) return known.cost;
    // A provider may report any usage; the ledger stores amounts up to `maxMoney`.
    const cost = chargedOf(costOf(candidate.model.price, usage), mostMoney);
    this.#reckoned = { candidate, usage, cost };
    return cost;
  }

  get #requestId(): string {
    return this.#asked.receipt.requestId;
  }

  #settlement(
    candidate: Candidate,
    place: number,
    { answer, ...end }: End,
  ): Omit<Settlement, 'cost' | 'usage'> {
    return {
      ...recordOf(this.#asked, candidate, place),
      ...end,
      ...(this.#order.idempotency && answer ? { answer } : {}),
      totalMs: performance.now() - this.#asked.arrivedAt,
      firstByteMs: this.#firstByteMs,
    };
  }
}

/** The key was revoked or expired between the request's arrival and its reservation. */
export class KeyInvalid extends Error {}

export const endpointOf = ({ credential }: Candidate): string =>
  credential.kind === 'byok' ? `byok:${credential.provider}` : 'credits';

function recordOf({ receipt }: Asked, candidate: Candidate, place: number) {
  return {
    effectiveModel: candidate.model.id,
    provider: candidate.model.provider.id,
    reason: place > 0 ? ('provider_failover' as const) : receipt.reason,
    endpoint: endpointOf(candidate),
    pricingIdentity: candidate.model.price.identity,
    firstByteMs: undefined,
  };
}
