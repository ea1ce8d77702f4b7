import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { Credentials, type CredentialsOptions } from '../../../src/gateway/access/credentials.ts';
import { freshDataDir, startGateway } from '../host.ts';
import { ledgerOn } from '../ledger.ts';
import { framesOf } from './frames.ts';
import { type FakeProvider, fakeProvider, type ProviderReply } from './provider.ts';

/** The operator's provider keys, and the master key for callers' credentials. */
export const houseKey = 'sk-house-0123456789';
const masterKey = Buffer.alloc(32, 7);
const env = { HOUSE_KEY: houseKey, MASTER_KEY: masterKey.toString('base64') };

/** Keys of callers that the providers accept. */
export const ownKey = 'sk-own-abcdefghij';

/** Nanodollars per token, of all models except `spare`, which costs twice as much, and `embedder`. */
export const prices = { in: 1000n, out: 4000n, read: 100n, write: 1250n, write1h: 2000n };
const card = `in_usd_per_mtok = "1"
out_usd_per_mtok = "4"
cache_read_usd_per_mtok = "0.1"
cache_write_usd_per_mtok = "1.25"
cache_write_1h_usd_per_mtok = "2"`;

/** Providers of every kind, and models with different capabilities. */
const configuration = ({ baseUrl }: FakeProvider, limits: string): string => `
${(
  [
    ['oai', 'openai-chat'],
    ['resp', 'openai-responses'],
    ['ant', 'anthropic-messages'],
    ['goo', 'google'],
  ] as const
)
  .map(
    ([id, wire]) =>
      `[[providers]]\nid = "${id}"\nwire = "${wire}"\nbase_url = "${baseUrl(wire)}"\napi_key_env = "HOUSE_KEY"\n`,
  )
  .join('\n')}
[[providers]]
id = "theirs"
wire = "openai-chat"
base_url = "${baseUrl('openai-chat')}"
access = "byok"
${model('plain', 'oai', '"chat"')}
${model('full', 'oai', allCaps, 'efforts = ["low", "medium", "high"]')}
${model('thinker', 'resp', allCaps, 'efforts = ["minimal", "low", "medium", "high"]')}
${model('claude', 'ant', allCaps, '', 'anthropic')}
${model('claude-levels', 'ant', allCaps, 'efforts = ["low", "medium", "high", "max"]', 'anthropic')}
${model('claude-plain', 'ant', '"chat"', '', 'anthropic')}
${model('gemini', 'goo', allCaps, '', 'google')}
${model('gemini-levels', 'goo', allCaps, 'efforts = ["low", "high"]', 'google')}
${model('theirs-only', 'theirs', '"chat"')}
${model('a/b:c', 'oai', '"chat"')}
[[models]]
id = "small"
provider = "oai"
upstream = "up-small"
family = "qwen"
caps = ["chat", "completions"]
context_window = 100
max_output_tokens = 50
${card}
[[models]]
id = "brief"
provider = "oai"
upstream = "up-brief"
family = "qwen"
caps = ["chat"]
context_window = 100_000
max_output_tokens = 300
${card}
[[models]]
id = "spare"
provider = "oai"
upstream = "up-spare"
family = "openai"
caps = [${allCaps}]
context_window = 100_000
max_output_tokens = 8_000
in_usd_per_mtok = "2"
out_usd_per_mtok = "8"
[[models]]
id = "embedder"
provider = "oai"
upstream = "up-embedder"
family = "openai"
caps = ["embeddings"]
context_window = 1000
embedding_dimensions = 3
in_usd_per_mtok = "0.02"
[aliases]
auto = "plain"
default = "full"
[[fallbacks]]
model = "brief"
to = ["spare"]
[byok.theirs]
[byok.oai]
[byok.azure]
host_suffixes = [".resources.invalid"]
[secrets]
master_key_env = "MASTER_KEY"
[limits]
retries = 0
breaker_failures = 1000
${limits}
`;

const allCaps = '"chat", "tools", "images", "reasoning", "structured_output", "completions", "caching"';

const model = (id: string, provider: string, caps: string, more = '', family = 'openai') => `[[models]]
id = "${id}"
provider = "${provider}"
upstream = "up-${id}"
family = "${family}"
caps = [${caps}]
context_window = 100_000
max_output_tokens = 8_000
display_name = "Model ${id}"
${more}
${card}
`;

// oxlint-disable-next-line typescript/no-explicit-any -- JSON of every wire: each test says what it expects there
export type Loose = any;

export interface Asking {
  readonly method?: string;
  /** The secret of a gateway key; null: none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; a string is sent unchanged. */
  readonly body?: object | string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly isStream: boolean;
  /** The body of an answer that is not a stream. */
  readonly json: Loose;
  /** The events of a stream, without `[DONE]`. */
  readonly events: readonly { readonly event: string | undefined; readonly data: Loose }[];
}

type Money = { readonly credit?: bigint; readonly included?: bigint };
type KeyOptions = { readonly cap?: bigint; readonly expiresAt?: string; readonly models?: readonly string[] };

/** A gateway process with this configuration, a fake provider of every wire, and its database. */
export async function servedGateway(limits = '') {
  const provider = await fakeProvider([{ say: { text: 'Hello.' } }], { keys: [houseKey, ownKey] });
  const folder = freshDataDir();
  const database = `sqlite:${join(folder, 'gateway.db')}`;
  const file = join(folder, 'gateway.toml');
  writeFileSync(file, configuration(provider, limits));
  const books = await ledgerOn(database);
  const child = startGateway(['serve', '--config', file, '--database', database, '--port', '0'], env);
  const url = await child.url();

  const customer = async (money: Money = { credit: 10n ** 12n }, options: KeyOptions = {}) => {
    const { id } = await books.ledger.createAccount(crypto.randomUUID(), money);
    const { row, secret } = await books.ledger.createKey({ account: id, ...options });
    return { accountId: id, keyId: row.id, secret };
  };
  const { secret: usual } = await customer();

  const begin = (path: string, { method, key = usual, headers = {}, body }: Asking = {}) => {
    const sent = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    return fetch(url + path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(sent === undefined ? {} : { body: sent }),
    });
  };

  return {
    provider,
    url,
    books,
    child,
    customer,
    /** Not read, and not checked. */
    begin,
    /** Sends a request and asserts that the answer has a valid receipt. */
    async ask(path: string, asking?: Asking): Promise<Answer> {
      const answer = await answerOf(await begin(path, asking));
      expect(
        receiptFaults(answer),
        `${path} ${JSON.stringify(asking)}: ${answer.text.slice(0, 300)}`,
      ).toEqual([]);
      return answer;
    },
    /** Sets the provider's replies. */
    replies: (...script: ProviderReply[]) => provider.script(script),
    /** The last request that the provider got. */
    lastProviderRequest() {
      const last = provider.requests.at(-1);
      if (!last) throw new Error('the provider received no request');
      return { ...last, body: last.body as Loose };
    },
    /** Direct access to callers' credentials, without verification by a provider. */
    credentials: (byok: CredentialsOptions['byok']) =>
      new Credentials({
        store: books.store,
        byok,
        masterKeys: masterKeys(),
        probe: () => Promise.resolve({ status: 200 }),
      }),
    async close() {
      const wrong = (await books.ledger.audit()).faults;
      child.kill('SIGTERM');
      const { code } = await child.exit;
      await books.close();
      await provider.close();
      expect({ wrong, code }).toEqual({ wrong: [], code: 0 });
    },
  };
}

export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const text = await response.text();
  const isStream = headers.get('content-type')?.startsWith('text/event-stream') === true;
  const isPage = headers.get('content-type')?.startsWith('text/html') === true;
  return {
    status,
    headers,
    text,
    isStream,
    json: isStream || isPage || text === '' ? undefined : JSON.parse(text),
    events: isStream
      ? framesOf(text)
          .filter(({ data }) => data !== '[DONE]')
          .map(({ event, data }) => ({ event, data: JSON.parse(data) }))
      : [],
  };
}

/** What is wrong with the receipt that every response carries. */
export function receiptFaults({
  headers,
  isStream,
  status,
}: Pick<Answer, 'headers' | 'isStream' | 'status'>): string[] {
  const faults: string[] = [];
  const must = (name: string, form: RegExp) => {
    const value = headers.get(name);
    if (value === null || !form.test(value)) faults.push(`${name}: ${value}`);
  };
  const mustNot = (name: string) => {
    if (headers.has(name)) faults.push(`${name}: ${headers.get(name)}`);
  };
  must('x-svc-request-id', /^req_[0-9a-f]{32}$/);
  for (const name of ['request-id', 'x-request-id'])
    if (headers.get(name) !== headers.get('x-svc-request-id')) faults.push(`${name}: ${headers.get(name)}`);
  must('x-svc-requested-model', /^[\x21-\x7e]*$/);
  must('x-svc-effective-model', /^[\x21-\x7e]*$/);
  must('x-svc-endpoint', /^(credits|byok:[a-z0-9:-]+)$/);
  must('x-svc-receipt-reason', /^(as_requested|routed|provider_failover|cached)$/);
  if (headers.has('x-svc-pricing-identity')) must('x-svc-pricing-identity', /^sha256:[0-9a-f]{64}$/);
  if (isStream) {
    mustNot('x-svc-cost-nanousd');
    mustNot('x-svc-cost-components-nanousd');
  } else {
    must('x-svc-cost-nanousd', /^\d+$/);
    must('x-svc-cost-components-nanousd', /^fresh=\d+,cache_write=\d+,cache_read=\d+,output=\d+$/);
    const parts = (headers.get('x-svc-cost-components-nanousd') ?? '').matchAll(/=(\d+)/g);
    const sum = [...parts].reduce((all, [, part = '0']) => all + BigInt(part), 0n);
    if (String(sum) !== headers.get('x-svc-cost-nanousd')) faults.push(`the components add up to ${sum}`);
    if (status >= 400 && sum !== 0n) faults.push(`a refusal costs ${sum}`);
  }
  for (const name of headers.keys()) if (name.startsWith('x-ratelimit')) mustNot(name);
  return faults;
}

const masterKeys = (): CredentialsOptions['masterKeys'] => [
  { id: `mk_${createHash('sha256').update(masterKey).digest('hex').slice(0, 16)}`, key: masterKey },
];
