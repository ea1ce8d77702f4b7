import { priceOf, type RateCard } from '../../../src/gateway/catalog/rate-card.ts';
import type { Model } from '../../../src/gateway/catalog/types.ts';
import type { Cap } from '../../../src/wires/core/types.ts';
import type { WireKind } from '../../../src/wires/providers.ts';
import type { GatewayConfig, Limits } from '../../../src/gateway/config/types.ts';
import type { Row } from '../../../src/gateway/store/index.ts';
import { openGateway, type GatewaySetup } from '../../../src/gateway/open.ts';
import { listen } from '../../../src/gateway/serve/listen.ts';
import type { Tracer } from '../../../src/tracing/index.ts';
import { freshSqlite } from '../databases.ts';
import { ledgerOn, type OpenLedger } from '../ledger.ts';
import { type FakeProvider, fakeProvider } from './provider.ts';

/** Prices whose products are seldom whole nanodollars. */
export const rates: RateCard = {
  in_usd_per_mtok: '0.123457',
  out_usd_per_mtok: '1.7',
  cache_read_usd_per_mtok: '0.012347',
  cache_write_usd_per_mtok: '0.1543',
  cache_write_1h_usd_per_mtok: '0.246914',
};
/** Rates of `chat-other`, the fallback of `chat`. */
export const otherRates: RateCard = { in_usd_per_mtok: '0.5', out_usd_per_mtok: '3.000001' };

/** The nanodollars of tokens, rounded up once. */
export function nanoOf(
  tokens: { fresh?: number; cacheWrite?: number; cacheWrite1h?: number; cacheRead?: number; output?: number },
  card = rates,
): bigint {
  const { price } = priceOf(card);
  const pico =
    BigInt(tokens.fresh ?? 0) * price.input +
    BigInt(tokens.cacheWrite ?? 0) * price.cacheWrite +
    BigInt(tokens.cacheWrite1h ?? 0) * price.cacheWrite1h +
    BigInt(tokens.cacheRead ?? 0) * price.cacheRead +
    BigInt(tokens.output ?? 0) * price.output;
  return (pico + 999n) / 1000n;
}

const caps: readonly Cap[] = [
  'chat',
  'tools',
  'images',
  'reasoning',
  'structured_output',
  'completions',
  'embeddings',
  'caching',
];

export interface Sold {
  readonly id: string;
  readonly wire: WireKind;
  readonly baseUrls: readonly string[];
  readonly card?: RateCard;
  /** Default: `anthropic` on its own wire, else `openai`. */
  readonly family?: string;
  readonly efforts?: Model['efforts'];
}

const modelOf = ({
  id,
  wire,
  baseUrls,
  card = rates,
  family = wire === 'anthropic-messages' ? 'anthropic' : 'openai',
  efforts = [],
}: Sold): Model => ({
  id,
  provider: { id: `at-${id}`, wire, baseUrls, apiKey: 'sk-house', access: 'house' },
  upstream: `upstream-${id}`,
  family,
  caps: new Set(caps),
  contextWindow: 100_000,
  maxOutputTokens: 8_000,
  ...priceOf(card),
  displayName: id,
  embeddingDimensions: undefined,
  efforts,
});

export const usualLimits: Limits = {
  concurrency: 1000,
  requestsPerMinute: 10_000_000,
  shared: false,
  maxBodyBytes: 1 << 20,
  retries: 2,
  breakerFailures: 1000,
  breakerSecs: 1,
  drainSecs: 5,
  drainIdleSecs: 5,
};

/** A model on each wire of providers, all at the same one, and one that stands in for `chat`. */
export const soldAt = ({ baseUrl }: FakeProvider): readonly Sold[] => [
  { id: 'chat', wire: 'openai-chat', baseUrls: [baseUrl('openai-chat')] },
  { id: 'chat-other', wire: 'openai-chat', baseUrls: [baseUrl('openai-chat')], card: otherRates },
  { id: 'responses', wire: 'openai-responses', baseUrls: [baseUrl('openai-responses')] },
  { id: 'claude', wire: 'anthropic-messages', baseUrls: [baseUrl('anthropic-messages')] },
  { id: 'gemini', wire: 'google', baseUrls: [baseUrl('google')] },
  { id: 'host', wire: 'lathe', baseUrls: [baseUrl('lathe')] },
  // A provider that copied OpenAI's wire.
  { id: 'copy', wire: 'openai-chat', baseUrls: [baseUrl('openai-chat')], family: 'copied' },
];

export const configOf = (
  sold: readonly Sold[],
  limits: Partial<Limits> = {},
  fallbacks: GatewayConfig['fallbacks'] = new Map(),
): GatewayConfig => {
  const models = sold.map(modelOf);
  return {
    providers: models.map(({ provider }) => provider),
    models,
    aliases: new Map([['auto', 'chat']]),
    fallbacks,
    byok: [],
    limits: { ...usualLimits, ...limits },
    masterKeys: [],
  };
};

/** A customer with money and a key. */
export interface Customer {
  readonly accountId: string;
  readonly keyId: string;
  readonly secret: string;
}

export async function customerOf(
  { ledger }: OpenLedger,
  { credit = 10n ** 12n, cap }: { credit?: bigint; cap?: bigint } = {},
): Promise<Customer> {
  const { id } = await ledger.createAccount(crypto.randomUUID(), { credit });
  const { row, secret } = await ledger.createKey({ account: id, ...(cap === undefined ? {} : { cap }) });
  return { accountId: id, keyId: row.id, secret };
}

export type RequestRow = Row<'gateway_requests'>;

/** What a database says of requests, from beside the gateways. */
export class Witness {
  readonly books: OpenLedger;

  constructor(books: OpenLedger) {
    this.books = books;
  }

  rows(): Promise<RequestRow[]> {
    return this.books.store.read((db) => db.selectFrom('gateway_requests').selectAll().execute());
  }

  /** The request's, as soon as it is over. */
  async row(id: string): Promise<RequestRow> {
    for (;;) {
      const found = await this.books.store.read((db) =>
        db.selectFrom('gateway_requests').selectAll().where('id', '=', id).executeTakeFirst(),
      );
      if (found) return found;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** The only request of a key, as soon as it is over: its caller left before it heard of the id. */
  async rowOf({ keyId }: Customer): Promise<RequestRow> {
    for (;;) {
      const [row] = (await this.rows()).filter((one) => one.key_id === keyId);
      if (row) return row;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  async openHolds(): Promise<number> {
    return (await this.books.ledger.audit()).openHolds;
  }

  /** What is wrong; nothing in a sound ledger with nothing under way. */
  async faults(): Promise<string[]> {
    const { faults, openHolds } = await this.books.ledger.audit();
    return [...faults, ...(openHolds > 0 ? [`${openHolds} holds are open`] : [])];
  }
}

export type Asking = Parameters<typeof ask>[2];

/** @param at where the gateway listens */
export function ask(
  at: string,
  path: string,
  {
    customer,
    body,
    headers = {},
    signal,
  }: {
    readonly customer: Customer;
    readonly body: object;
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
  },
): Promise<Response> {
  return fetch(at + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.secret}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

export interface WorldOptions {
  readonly database?: string;
  readonly limits?: Partial<Limits>;
  readonly fallbacks?: GatewayConfig['fallbacks'];
  readonly upstreamLimits?: GatewaySetup['upstreamLimits'];
  readonly readerMs?: number;
  readonly watch?: Tracer;
  /** Changes the configuration before the gateway starts. */
  readonly change?: (config: GatewayConfig) => GatewayConfig;
  /** The provider of another gateway; it is not closed with this one. */
  readonly sharedProvider?: FakeProvider;
  readonly observer?: GatewaySetup['observer'];
}

/** A gateway in this process, behind a port, with a provider of all wires behind it. */
export async function gatewayWorld({
  database = freshSqlite(),
  limits,
  fallbacks,
  upstreamLimits,
  readerMs,
  watch,
  change = (config) => config,
  sharedProvider,
  observer,
}: WorldOptions = {}) {
  const provider = sharedProvider ?? (await fakeProvider());
  const config = change(configOf(soldAt(provider), limits, fallbacks));
  const faults: string[] = [];
  const gateway = await openGateway({
    config,
    database,
    onFault: (where, error) =>
      faults.push(`${where}: ${error instanceof Error ? error.message : String(error)}`),
    onNotice: (message) => faults.push(message),
    ...(upstreamLimits ? { upstreamLimits } : {}),
    ...(readerMs === undefined ? {} : { stallTimeoutMs: readerMs }),
    ...(watch ? { tracer: watch } : {}),
    ...(observer ? { observer } : {}),
  });
  let arrived = 0;
  let left = 0;
  const counted = {
    fetch(request: Request, env: object) {
      arrived += 1;
      request.signal.addEventListener('abort', () => (left += 1), { once: true });
      return gateway.app.fetch(request, env);
    },
  };
  const listener = await listen(counted, { host: '127.0.0.1', port: 0 });
  const witness = new Witness(await ledgerOn(database));
  const url = `http://127.0.0.1:${listener.port}`;
  return {
    provider,
    gateway,
    listener,
    witness,
    url,
    /** What the gateway wrote to its log. */
    faults,
    customer: (money?: Parameters<typeof customerOf>[1]) => customerOf(witness.books, money),
    ask: (path: string, asking: Asking) => ask(url, path, asking),
    /** Requests whose head has come, and those of them of which the gateway knows that the caller is gone. */
    arrived: () => arrived,
    left: () => left,
    async close() {
      const closed = listener.close();
      await gateway.close(0);
      listener.destroyConnections();
      await closed;
      await witness.books.close();
      if (!sharedProvider) await provider.close();
    },
  };
}
