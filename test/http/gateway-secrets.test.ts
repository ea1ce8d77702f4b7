import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type FakeProvider, fakeProvider, type ProviderRequest } from '../support/gateway/provider.ts';
import { freshDataDir, startGateway } from '../support/host.ts';
import { ledgerOn, type OpenLedger } from '../support/ledger.ts';

const random = (bytes: number) => randomBytes(bytes).toString('base64url');
const house = `sk-proj-${random(30)}`;
const own = `sk-own-${random(30)}`;
const master = randomBytes(32).toString('base64');

/** Eight characters of a secret, wherever in it, say too much. What all keys begin with says nothing. */
function piecesOf(secret: string): string[] {
  const start = /^(sk-proj-|sk-own-|lathe_gateway_)?/.exec(secret)?.[0].length ?? 0;
  return Array.from({ length: secret.length - start - 7 }, (_, at) =>
    secret.slice(start + at, start + at + 8),
  );
}

const folder = freshDataDir();
const database = `sqlite:${join(folder, 'gateway.db')}`;
const config = join(folder, 'gateway.toml');
const env = { HOUSE_KEY: house, MASTER_KEY: master };

let provider: FakeProvider;
let child: ReturnType<typeof startGateway>;
let books: OpenLedger;
let url: string;
let secrets: string[];
let accountId: string;
let key: string;

const wires = {
  oai: ['openai-chat', 'openai'],
  resp: ['openai-responses', 'openai'],
  ant: ['anthropic-messages', 'anthropic'],
  goo: ['google', 'google'],
  theirs: ['openai-chat', 'openai'],
} as const;

beforeAll(async () => {
  provider = await fakeProvider();
  const tables = Object.entries(wires).map(
    ([id, [wire, family]]) => `[[providers]]
id = "${id}"
wire = "${wire}"
base_url = "${provider.baseUrl(wire)}"
${id === 'theirs' ? 'access = "byok"' : 'api_key_env = "HOUSE_KEY"'}
[[models]]
id = "of-${id}"
provider = "${id}"
family = "${family}"
caps = ["chat", "completions", "embeddings"]
context_window = 100_000
max_output_tokens = 8_000
in_usd_per_mtok = "1"
out_usd_per_mtok = "4"
`,
  );
  writeFileSync(
    config,
    `${tables.join('')}[byok.theirs]\n[secrets]\nmaster_key_env = "MASTER_KEY"\n[limits]\nretries = 0\nbreaker_failures = 1000\n`,
  );
  books = await ledgerOn(database);
  const account = await books.ledger.createAccount('somebody', { credit: 10n ** 12n });
  accountId = account.id;
  ({ secret: key } = await books.ledger.createKey({ account: accountId }));
  secrets = [house, own, key, master];
  child = startGateway(['serve', '--config', config, '--database', database, '--port', '0'], env);
  url = await child.url();
  const stored = await ask('/v1/keys/theirs', { api_key: own }, { method: 'PUT' });
  expect(stored.status).toBe(200);
});

afterAll(async () => {
  await child.end();
  await books.close();
  await provider.close();
});

async function ask(path: string, body?: object, { method = 'POST', headers = {} } = {}) {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text: `${JSON.stringify([...response.headers])}\n${text}` };
}

const leaks = (text: string): string[] =>
  secrets.flatMap((secret) => piecesOf(secret).filter((piece) => text.includes(piece)));

const requests: readonly (readonly [name: string, path: string, body: object])[] = [
  [
    'chat',
    '/v1/chat/completions',
    { model: 'of-oai', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
  ],
  [
    'chat, own',
    '/v1/chat/completions',
    { model: 'of-theirs', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
  ],
  [
    'chat at Google',
    '/v1/chat/completions',
    { model: 'of-goo', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
  ],
  [
    'chat at Responses',
    '/v1/chat/completions',
    { model: 'of-resp', max_tokens: 16, messages: [{ role: 'user', content: 'x' }] },
  ],
  ['responses', '/v1/responses', { model: 'of-resp', max_output_tokens: 16, input: 'x' }],
  ['responses at Messages', '/v1/responses', { model: 'of-ant', max_output_tokens: 16, input: 'x' }],
  [
    'messages',
    '/v1/messages',
    { model: 'of-ant', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
  ],
  ['completions', '/v1/completions', { model: 'of-oai', max_tokens: 9, prompt: 'x' }],
  ['embeddings', '/v1/embeddings', { model: 'of-oai', input: 'x' }],
];

/** How providers, and proxies before them, repeat a key in their errors. */
const errorTextsOf = (secret: string): readonly string[] => [
  `Incorrect API key provided: ${secret}.`,
  `bad key ${secret.slice(0, 12)}...${secret.slice(-4)}`,
  `key=${secret.slice(4, 24)} and then ${secret.slice(20)}`,
  `${encodeURIComponent(secret)} \\u0041 ${secret}`,
  secret.slice(18, 30),
  `https://x/?key=${secret}#${secret}`,
  `token ${Buffer.from(secret).toString('latin1').slice(8)}`,
];

const bodies = (secretText: string): readonly string[] => [
  JSON.stringify({ error: { message: secretText, type: secretText, code: secretText, param: secretText } }),
  JSON.stringify({
    type: 'error',
    error: { type: 'invalid_request_error', message: secretText },
    request_id: secretText,
  }),
  JSON.stringify([
    { error: { code: 400, message: secretText, status: secretText, details: [{ reason: secretText }] } },
  ]),
  JSON.stringify({
    detail: [{ loc: ['body', secretText], msg: secretText }],
    message: secretText,
    error: secretText,
  }),
  `<html><title>${secretText}</title></html>`,
  secretText,
];

const inBand = (secretText: string, isGoogle: boolean): readonly string[] => [
  `data: ${JSON.stringify({ error: { message: secretText, code: secretText, type: secretText } })}\n\n`,
  `event: error\ndata: ${JSON.stringify({ type: 'error', message: secretText, code: secretText, param: secretText, error: { type: secretText, message: secretText } })}\n\n`,
  `event: response.failed\ndata: ${JSON.stringify({ type: 'response.failed', sequence_number: 1, response: { id: 'r', object: 'response', status: 'failed', error: { code: secretText, message: secretText }, output: [] } })}\n\n`,
  ...(isGoogle
    ? [
        `data: ${JSON.stringify({ promptFeedback: { blockReason: secretText, blockReasonMessage: secretText } })}\n\n`,
      ]
    : []),
  `data: ${secretText}\n\n`,
];

describe('a credential that a provider echoes is redacted', () => {
  test.each(requests)('errors on the wire of %s', async (_, path, body) => {
    const secretBodies = errorTextsOf('');
    let requestCount = 0;
    for (const [index] of secretBodies.entries())
      for (const [form] of bodies('').entries()) {
        const status = [302, 400, 401, 404, 422, 429, 500, 503][requestCount++ % 8] ?? 400;
        provider.script(({ key: credential = '' }: ProviderRequest) => {
          const text = errorTextsOf(credential)[index] ?? '';
          const header = encodeURIComponent(text).slice(0, 200);
          return {
            status,
            raw: { body: bodies(text)[form] ?? '', contentType: 'application/json' },
            headers: {
              'x-key': header,
              'www-authenticate': header,
              location: `http://x/${header}`,
              'x-request-id': header,
            },
          };
        });
        const headers = { 'idempotency-key': random(9) };
        const answer = await ask(path, body, { headers });
        expect(answer.status).toBeGreaterThanOrEqual(400);
        expect(leaks(answer.text), answer.text).toEqual([]);
        expect(leaks((await ask(path, body, { headers })).text)).toEqual([]);
      }
  });

  test.each(requests.filter(([name]) => name !== 'embeddings'))(
    'faults within a stream of %s',
    async (name, path, body) => {
      for (const [index] of errorTextsOf('').entries())
        for (const [form] of inBand('', name === 'chat at Google').entries())
          for (const begun of [false, true]) {
            provider.script(({ key: credential = '' }) => {
              const fault =
                inBand(errorTextsOf(credential)[index] ?? '', name === 'chat at Google')[form] ?? '';
              return begun
                ? { say: { text: 'Hello there.' }, endAfter: 2, extra: fault }
                : { raw: { body: fault, contentType: 'text/event-stream' } };
            });
            const answer = await ask(path, { ...body, stream: true });
            // What a provider writes as an answer is the caller's.
            expect(leaks(answer.text), answer.text).toEqual([]);
          }
    },
  );

  test('a rejected credential is not shown', async () => {
    for (const api_key of [`${own}\u0001`, `${own} `, '', own.repeat(300)]) {
      const { status, text } = await ask('/v1/keys/theirs', { api_key }, { method: 'PUT' });
      expect(status).toBe(400);
      expect(leaks(text)).toEqual([]);
    }
    const { text } = await ask('/v1/keys', undefined, { method: 'GET' });
    expect(leaks(text)).toEqual([]);
    expect(text).toContain(`"last4":"${own.slice(-4)}"`);
  });

  test('neither the log, the commands, nor the database contains one', async () => {
    const commands = [
      ['key', 'list', '--account', accountId],
      ['account', 'list'],
      ['endpoint', 'list', '--account', accountId],
      ['ledger', 'audit'],
      ['catalog', 'check'],
    ];
    const outputs = await Promise.all(
      commands.map(async (words) => {
        const command = startGateway([...words, '--database', database, '--config', config], env);
        await command.exit;
        return command.output.stdout + command.output.stderr;
      }),
    );
    const files = readdirSync(folder).filter((name) => name.startsWith('gateway.db'));
    const bytes = files.map((name) => readFileSync(join(folder, name), 'latin1'));
    expect(files.length).toBeGreaterThan(0);
    for (const text of [child.output.stdout, child.output.stderr, ...outputs, ...bytes])
      expect(leaks(text)).toEqual([]);
  });
});

describe("callers' headers are not passed on", () => {
  const theirs = {
    cookie: 'a=b',
    'x-forwarded-for': '1.2.3.4',
    forwarded: 'for=1.2.3.4',
    'proxy-authorization': 'Basic x',
    'x-goog-api-key': 'other',
    'openai-organization': 'org',
    'openai-project': 'p',
    'x-svc-request-id': 'req_0',
    'x-svc-endpoint': 'byok:x',
    'x-request-id': 'mine',
    'user-agent': 'me',
    'x-custom': 'y',
    origin: 'http://x',
    referer: 'http://x',
    'accept-language': 'de',
    range: 'bytes=0-1',
    'if-none-match': '*',
  };
  const sent = [
    'accept',
    'accept-encoding',
    'connection',
    'content-length',
    'content-type',
    'host',
    'user-agent',
  ];
  const credentials = ['authorization', 'x-api-key', 'x-goog-api-key', 'anthropic-version'];

  test.each(requests)('on the wire of %s', async (_, path, body) => {
    provider.script([{ say: { text: 'Hello.' } }]);
    const { status, text } = await ask(path, body, { headers: theirs });
    expect(status).toBe(200);
    const headers = provider.requests.at(-1)?.headers ?? {};
    expect(Object.keys(headers).filter((name) => ![...sent, ...credentials].includes(name))).toEqual([]);
    const credential = JSON.stringify(headers);
    expect(credential).not.toContain(key);
    expect(credential).not.toContain('other');
    expect(headers['user-agent']).toBe('lathe');
    expect(text).not.toContain('byok:x');
    expect(text).not.toContain('req_0"');
  });
});
