import { expect } from 'vitest';
import { pairs, wires } from './asks.ts';
import { framesOf } from './frames.ts';
import { ask, type Customer, type RequestRow, type Witness } from './world.ts';

/** A caller's view of one request: all its attempts under one idempotency key. */
export interface Bought {
  readonly key: string;
  readonly stream: boolean;
  /** Ids of requests answered with 200, including replays. */
  readonly ids: Set<string>;
  /** The cost in the answer; undefined when it had none. */
  cost: bigint | undefined;
  /** The end of the last answer. */
  tail: string;
  end: 'answered' | 'left' | 'lost' | 'refused' | 'given up';
}

export interface LoadOptions {
  readonly customers: readonly Customer[];
  /** URLs at which a gateway may be listening. */
  readonly gateways: () => readonly string[];
  readonly random: (below: number) => number;
  readonly choices?: typeof pairs;
  /** Percentage of callers that disconnect early. */
  readonly leaving?: number;
  /** Maximum attempts of a request. */
  readonly attempts?: number;
  readonly content?: (n: number) => string;
  /** Expected error codes; any other is reported. */
  readonly refusals?: RegExp;
}

/** Clients have their own timeout; a later answer is stored for the idempotency key. */
const requestTimeoutMs = 20_000;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Callers that retry with the same idempotency key after retryable errors, as OpenAI's clients do. */
export class Load {
  readonly bought: Bought[] = [];
  /** Unexpected answers. */
  readonly odd: string[] = [];
  readonly #options: LoadOptions;
  #n = 0;
  #running = true;
  #workers: Promise<void>[] = [];

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** @param total number of requests after which it ends */
  start(workers: number, total = Number.POSITIVE_INFINITY): void {
    this.#running = true;
    this.#workers = Array.from({ length: workers }, async () => {
      while (this.#running && this.#n < total) await this.#buy(this.#n++);
    });
  }

  /** Resolves when every request has ended. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#workers);
  }

  async over(): Promise<void> {
    await Promise.all(this.#workers);
  }

  async #buy(n: number): Promise<void> {
    const { customers, random, choices = pairs, leaving = 0, attempts = 60, content } = this.#options;
    const [wire, model] = choices[random(choices.length)] ?? ['chat', 'chat'];
    const stream = random(2) === 0;
    const bought: Bought = {
      key: crypto.randomUUID(),
      stream,
      ids: new Set(),
      cost: undefined,
      tail: '',
      end: 'given up',
    };
    this.bought.push(bought);
    const customer = customers[random(customers.length)];
    if (!customer) throw new Error('no customer to send the request');
    const { path, body } = wires[wire];
    const requestBody = body(model, stream, content?.(n) ?? 'word '.repeat(1 + random(60)));
    const leaves = random(100) < leaving;
    for (let attempt = 0; attempt < attempts; attempt++) {
      const gateways = this.#options.gateways();
      const at = gateways[random(Math.max(1, gateways.length))];
      const end =
        at === undefined ? undefined : await this.#try(at, { path, requestBody, customer, leaves }, bought);
      if (end) {
        bought.end = end;
        return;
      }
      await pause(20 + random(80));
    }
  }

  /** @returns undefined when a retry may succeed */
  async #try(
    at: string,
    {
      path,
      requestBody,
      customer,
      leaves,
    }: { path: string; requestBody: object; customer: Customer; leaves: boolean },
    bought: Bought,
  ): Promise<Bought['end'] | undefined> {
    const leaving = new AbortController();
    if (leaves) setTimeout(() => leaving.abort(), this.#options.random(60));
    try {
      const headers = { 'idempotency-key': bought.key };
      const signal = AbortSignal.any([leaving.signal, AbortSignal.timeout(requestTimeoutMs)]);
      const response = await ask(at, path, { customer, body: requestBody, headers, signal });
      const { status } = response;
      if (status === 200) bought.ids.add(response.headers.get('x-svc-request-id') ?? '');
      const text = await response.text();
      bought.tail = text.slice(-500);
      if (status === 200) return this.#answered(response, text, bought);
      if (status === 409 && text.includes('idempotency_answer_lost')) return 'lost';
      if (response.headers.get('x-should-retry') === 'false') return 'refused';
      if (status === 409 || status === 429 || status >= 500) return undefined;
      if (!this.#options.refusals?.test(text)) this.odd.push(`${status} ${text}`);
      return 'refused';
    } catch {
      return leaving.signal.aborted ? 'left' : undefined;
    }
  }

  #answered(response: Response, text: string, bought: Bought): Bought['end'] | undefined {
    const header = response.headers.get('x-svc-cost-nanousd');
    if (header !== null) bought.cost = BigInt(header);
    else {
      // Broken off or ended by an error: there is no answer.
      if (/^(data|event): ?\{?"?error|"type":"error"|^data: \{"error"/m.test(text)) return undefined;
      try {
        const receipt = framesOf(text).find(({ event }) => event === 'svc_receipt');
        if (receipt)
          bought.cost = BigInt(
            (JSON.parse(receipt.data) as { svc_receipt: { cost_nanousd: number } }).svc_receipt.cost_nanousd,
          );
      } catch (error) {
        this.odd.push(`${String(error)}: ${text.slice(-200)}`);
      }
    }
    return 'answered';
  }
}

/** Compares the callers' view with the ledger. All gateways are idle or stopped, and orphaned holds are settled. */
export async function expectHonest(
  witness: Witness,
  load: Load,
  { customers, credit, about }: { customers: readonly Customer[]; credit: bigint; about: string },
): Promise<RequestRow[]> {
  expect(await witness.faults(), about).toEqual([]);
  expect(load.odd, about).toEqual([]);
  const rows = await witness.rows();
  const byId = new Map(rows.map((row) => [row.id, row]));
  const byKey = Map.groupBy(rows, (row) => row.idempotency_key);
  for (const { key, ids, cost, end, tail } of load.bought) {
    const paid = (byKey.get(key) ?? []).filter(({ charged }) => charged > 0n);
    // All attempts with one key are billed at most once.
    expect(paid.length, `${about}: ${key}`).toBeLessThanOrEqual(1);
    for (const id of ids) expect(byId.has(id), `${about}: ${id} is in the ledger`).toBe(true);
    if (end === 'answered') {
      expect(paid.length, `${about}: ${key} was answered ${tail}`).toBe(1);
      if (cost !== undefined) expect(paid[0]?.charged, `${about}: ${key}`).toBe(cost);
    }
    // Every reported charge is in the ledger.
    if (end === 'lost') expect(byKey.has(key), `${about}: ${key} is lost`).toBe(true);
  }
  for (const row of rows)
    if (row.ended === 'crash')
      expect(row.cost, about).toBe(row.estimate < row.amount ? row.estimate : row.amount);
  for (const { accountId } of customers) {
    const spent = rows
      .filter(({ account_id }) => account_id === accountId)
      .reduce((sum, { charged }) => sum + charged, 0n);
    const { remaining } = await witness.books.ledger.balance(accountId);
    expect(remaining, about).toBe(credit - spent);
  }
  return rows;
}
