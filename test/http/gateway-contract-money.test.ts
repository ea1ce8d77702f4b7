import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type Answer,
  answerOf,
  type Asking,
  prices,
  receiptFaults,
  servedGateway,
} from '../support/gateway/served.ts';

type Served = Awaited<ReturnType<typeof servedGateway>>;
const limits = { concurrency: 3, perMinute: 40 };
let served: Served;
/** One that no other test uses up. */
let key: string;
let accountId: string;

beforeAll(async () => {
  served = await servedGateway(
    `concurrency = ${limits.concurrency}\nrequests_per_minute = ${limits.perMinute}`,
  );
});
afterAll(() => served.close());
beforeEach(async () => {
  served.replies({ say: { text: 'Hello.', usage: { input: 10, output: 5, reasoning: 0 } } });
  ({ secret: key, accountId } = await served.customer());
});

const messages = [{ role: 'user', content: 'Hello' }];
const routes = {
  chat: ['/v1/chat/completions', { model: 'plain', messages, max_tokens: 100 }],
  messages: ['/v1/messages', { model: 'claude', messages, max_tokens: 100 }],
  responses: ['/v1/responses', { model: 'thinker', input: 'Hello', max_output_tokens: 100 }],
  completions: ['/v1/completions', { model: 'full', prompt: 'Hello', max_tokens: 100 }],
  embeddings: ['/v1/embeddings', { model: 'embedder', input: 'Hello' }],
} as const;
type Route = keyof typeof routes;
const all = Object.keys(routes) as Route[];
const streaming = all.filter((route) => route !== 'embeddings');
/** Each route, buffered and, where it can, as a stream. */
const forms = [
  ...all.map((route) => [route, false] as const),
  ...streaming.map((route) => [route, true] as const),
];

type More = { stream?: boolean; body?: object; key?: string; headers?: Asking['headers'] };
const asking = (route: Route, { stream = false, body = {}, key: other = key, headers = {} }: More = {}) =>
  [
    routes[route][0],
    { key: other, headers, body: { ...routes[route][1], ...(stream ? { stream } : {}), ...body } },
  ] as const;
const ask = (route: Route, more?: More): Promise<Answer> => served.ask(...asking(route, more));
const errorOf = ({ status, json }: Answer) => ({ status, ...json.error }) as Record<string, unknown>;
const left = async (secret = key) =>
  (await served.ask('/v1/balance', { key: secret })).json.remaining_nanodollars;
const cost = (answer: Answer) => answer.headers.get('x-svc-cost-nanousd');
const usual = String(10n * prices.in + 5n * prices.out);

describe('402', () => {
  /** Expects a refusal without an upstream request or a charge. */
  async function expectRefused(route: Route, more: More, error: object) {
    const before = served.provider.requests.length;
    const balance = await left(more.key);
    const answer = await ask(route, more);
    expect(errorOf(answer)).toMatchObject({
      status: 402,
      message: expect.stringMatching(/nanodollars/),
      ...error,
    });
    expect(cost(answer)).toBe('0');
    expect(answer.headers.has('retry-after')).toBe(false);
    expect(served.provider.requests.length).toBe(before);
    expect(await left(more.key)).toBe(balance);
    return answer;
  }

  it.each(forms)('insufficient_allowance: %s, stream %s', async (route, stream) => {
    const { secret } = await served.customer({ credit: 700n, included: 77n });
    await expectRefused(
      route,
      { key: secret, stream },
      { type: 'insufficient_allowance', code: 'insufficient_quota', balance_nanodollars: 777 },
    );
  });

  it.each(forms)('cost_ceiling_exceeded: %s, stream %s', async (route, stream) => {
    const refusal = { type: 'cost_ceiling_exceeded', code: null };
    const headers = (ceiling: bigint) => ({ 'x-svc-max-cost-nanousd': String(ceiling) });
    const answer = await expectRefused(route, { stream, headers: headers(0n) }, refusal);
    // The message has the exact bound, to the nanodollar.
    const bound = BigInt(/cost (\d+)/.exec(answer.json.error.message)?.[1] ?? 0);
    await expectRefused(route, { stream, headers: headers(bound - 1n) }, refusal);
    expect((await ask(route, { stream, headers: headers(bound) })).status).toBe(200);
  });

  it.each(forms)('key_spend_cap_exceeded: %s, stream %s', async (route, stream) => {
    const { secret } = await served.customer({ credit: 10n ** 12n }, { cap: 5n });
    await expectRefused(route, { key: secret, stream }, { type: 'key_spend_cap_exceeded', code: null });
  });

  it.each(forms)("a key's budget: %s, stream %s", async (route, stream) => {
    const { secret, keyId } = await served.customer();
    const { ledger } = served.books;
    const owner = { kind: 'key', id: keyId } as const;
    const { id } = await ledger.setBudget({ owner, period: 'day', timeZone: 'Europe/Berlin', amount: 5n });
    const { json } = await expectRefused(
      route,
      { key: secret, stream },
      { type: 'key_spend_cap_exceeded', code: null },
    );
    expect(json.error.budget).toEqual({
      id,
      owner: 'key',
      owner_id: keyId,
      period: 'day',
      time_zone: 'Europe/Berlin',
      amount_nanodollars: 5,
      spent_nanodollars: 0,
      held_nanodollars: 0,
      resets_at: expect.stringMatching(/T2[23]:00:00\.000Z$/),
    });
    // It never covers this request, so a new period does not help.
    expect(json.error.message).not.toContain('allows more');
  });

  it.each(forms)('a budget of an account above: %s, stream %s', async (route, stream) => {
    const customer = await served.customer();
    const { ledger } = served.books;
    const { id: team } = await ledger.createAccount(crypto.randomUUID(), {});
    await ledger.updateAccount(customer.accountId, { parent: team });
    const { id } = await ledger.setBudget({
      owner: { kind: 'account', id: team },
      period: '12h',
      amount: 5n,
    });
    const { json } = await expectRefused(
      route,
      { key: customer.secret, stream },
      { type: 'insufficient_allowance', code: 'insufficient_quota', balance_nanodollars: 10 ** 12 },
    );
    // The caller learns nothing of the account above, nor of what others spent.
    expect(json.error.budget).toEqual({
      id,
      owner: 'account',
      period: '12h',
      time_zone: null,
      resets_at: null,
    });
    expect(json.error.message).not.toContain(team);
    await ledger.setBudget({ owner: { kind: 'account', id: team }, period: '12h', amount: 10n ** 12n });
    const answer = await ask(route, { key: customer.secret });
    expect(answer.status).toBe(200);
    const [budget] = await ledger.budgets(team);
    expect(budget).toMatchObject({ spent: BigInt(cost(answer) ?? ''), held: 0n });
  });

  it('comes when the cap, or the balance, is used up, and not before', async () => {
    const cap = 3_000_000n;
    const capped = (await served.customer({ credit: 10n ** 12n }, { cap })).secret;
    const poor = (await served.customer({ credit: cap })).secret;
    for (const [secret, type] of [
      [capped, 'key_spend_cap_exceeded'],
      [poor, 'insufficient_allowance'],
    ] as const) {
      const start = await left(secret);
      served.replies({ say: { text: 'x', usage: { input: 10, output: 90, reasoning: 0 } } });
      let paid = 0;
      let last: Answer;
      do {
        last = await ask('chat', { key: secret });
        paid += Number(cost(last));
      } while (last.status === 200);
      expect(errorOf(last)).toMatchObject({ status: 402, type });
      expect(paid).toBeGreaterThan(0);
      expect(paid).toBeLessThanOrEqual(Number(cap));
      expect(start - (await left(secret))).toBe(paid);
    }
  });

  it.each(['', 'free', '-1', '1.5', '1e9'])('a ceiling of %j is 400', async (ceiling) => {
    const answer = await ask('chat', { headers: { 'x-svc-max-cost-nanousd': ceiling } });
    expect(errorOf(answer)).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      param: 'x-svc-max-cost-nanousd',
    });
  });
});

describe('429', () => {
  const refusal = { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' };

  it('too many concurrent requests', async () => {
    const gate = Promise.withResolvers<void>();
    served.replies({ say: { text: 'Hello.' }, hold: (frame) => (frame === 2 ? gate.promise : undefined) });
    const open = await Promise.all(
      Array.from({ length: limits.concurrency }, () => served.begin(...asking('chat', { stream: true }))),
    );
    for (const route of all) {
      const answer = await ask(route);
      expect(errorOf(answer)).toMatchObject(refusal);
      expect(answer.headers.get('retry-after')).toBe('1');
    }
    // Another key has its own.
    const other = (await served.customer()).secret;
    gate.resolve();
    expect((await ask('chat', { key: other })).status).toBe(200);
    for (const response of open) expect(receiptFaults(await answerOf(response))).toEqual([]);
    expect((await ask('chat')).status).toBe(200);
  });

  it('too many requests a minute', async () => {
    let answer: Answer;
    let served200 = 0;
    do {
      answer = await ask('embeddings');
      if (answer.status === 200) served200++;
    } while (answer.status === 200 && served200 < 3 * limits.perMinute);
    expect(served200).toBeGreaterThanOrEqual(limits.perMinute);
    expect(errorOf(answer)).toMatchObject(refusal);
    expect(answer.headers.get('retry-after')).toBe('1');
    // What costs nothing is not counted.
    expect((await served.ask('/v1/models', { key })).status).toBe(200);
  });

  it.each(all)("a provider's own, on %s", async (route) => {
    served.replies({ status: 429, headers: { 'retry-after': '30', 'x-ratelimit-remaining-requests': '0' } });
    const answer = await ask(route);
    expect(errorOf(answer)).toMatchObject(refusal);
    expect(answer.headers.get('retry-after')).toBe('1');
  });
});

describe('failures of a provider', () => {
  const kinds: readonly (readonly [number, number, string, string | null])[] = [
    [400, 400, 'invalid_request_error', null],
    [401, 502, 'upstream_error', 'provider_credential_rejected'],
    [403, 502, 'upstream_error', 'provider_credential_rejected'],
    [404, 502, 'upstream_error', 'upstream_failed'],
    [500, 502, 'upstream_error', 'upstream_failed'],
    [503, 502, 'upstream_error', 'upstream_failed'],
    [504, 504, 'upstream_error', 'upstream_timeout'],
    [529, 502, 'upstream_error', 'upstream_failed'],
  ];
  it.each(kinds)('%i is %i %s %s, and costs nothing', async (told, status, type, code) => {
    served.replies({ status: told, message: 'No, because of {key}.' });
    for (const [route, stream] of forms) {
      const answer = await ask(route, { stream });
      const error = errorOf(answer);
      expect(error, `${route} ${stream}`).toMatchObject({ status, type });
      if (code !== null) expect(error['code']).toBe(code);
      expect(answer.text).not.toMatch(/sk-house|6789/);
      if (route === 'messages')
        expect(answer.json).toMatchObject({ type: 'error', request_id: answer.headers.get('request-id') });
    }
    expect(await left()).toBe(10 ** 12);
  });

  it('at the beginning of a stream is a normal error answer', async () => {
    const body = 'data: {"error":{"message":"We are overloaded.","type":"server_error","code":null}}\n\n';
    served.replies({ raw: { contentType: 'text/event-stream', body } });
    const answer = await ask('chat', { stream: true });
    expect(answer.isStream).toBe(false);
    expect(errorOf(answer)).toMatchObject({ status: 502, type: 'upstream_error' });
  });

  it.each(streaming)('in the middle of a stream has the shape of the buffered one: %s', async (route) => {
    const say = { text: 'One two three four five six.', piece: 5 };
    served.replies({ status: 500 });
    const whole = (await ask(route)).json;
    served.replies({ say, cutAfter: 5 });
    const answer = await ask(route, { stream: true });
    expect([answer.status, answer.isStream]).toEqual([200, true]);
    const told = answer.events.filter(({ data }) => data.error);
    expect(told).toHaveLength(1);
    const { event, data } = told[0] ?? { event: '', data: {} };
    expect(Object.keys(data.error).sort()).toEqual(Object.keys(whole.error).sort());
    expect(data.error).toMatchObject({ type: 'upstream_error', message: expect.stringMatching(/\w/) });
    const { sequence_number: _, ...rest } = data;
    if (route === 'messages') {
      expect(event).toBe('error');
      expect(Object.keys(rest).sort()).toEqual(Object.keys(whole).sort());
      expect(rest.request_id).toBe(answer.headers.get('request-id'));
    } else if (route === 'responses') {
      expect([event, rest.type]).toEqual(['error', 'error']);
      expect(answer.events.at(-1)?.data).toMatchObject({
        type: 'response.failed',
        response: { status: 'failed' },
      });
    } else {
      expect(Object.keys(rest)).toEqual(['error']);
      expect(answer.events.at(-1)?.data).toBe(data);
    }
    expect(answer.text).not.toContain('[DONE]');
    expect(answer.text).not.toContain('svc_receipt');
    expect(await left()).toBe(10 ** 12);
  });
});

describe('idempotency-key', () => {
  const headers = () => ({ 'idempotency-key': crypto.randomUUID() });
  const lasting = ({ headers: them }: Answer) =>
    [...them].filter(
      ([name]) =>
        /^(x-svc|request-id|x-request-id|content-type)/.test(name) && name !== 'x-svc-idempotent-replay',
    );

  it.each(forms)('gives the first answer again: %s, stream %s', async (route, stream) => {
    const more = { stream, headers: headers() };
    const first = await ask(route, more);
    expect(first.status).toBe(200);
    const [balance, requests] = [await left(), served.provider.requests.length];
    served.replies({ say: { text: 'Something else.' } });
    for (let n = 0; n < 2; n++) {
      const again = await ask(route, more);
      expect(again.text).toBe(first.text);
      expect(lasting(again)).toEqual(lasting(first));
      expect(again.headers.get('x-svc-idempotent-replay')).toBe('true');
    }
    expect(first.headers.has('x-svc-idempotent-replay')).toBe(false);
    expect([await left(), served.provider.requests.length]).toEqual([balance, requests]);
    // It is the account's own.
    const other = (await served.customer()).secret;
    expect((await ask(route, { ...more, key: other })).headers.has('x-svc-idempotent-replay')).toBe(false);
    expect(served.provider.requests.length).toBe(requests + 1);
  });

  it.each(all)('is bound to the body and the route: %s', async (route) => {
    const mine = headers();
    await ask(route, { headers: mine });
    const before = served.provider.requests.length;
    const conflict = { status: 409, type: 'invalid_request_error', code: 'idempotency_conflict' };
    expect(errorOf(await ask(route, { headers: mine, body: { user: 'me' } }))).toMatchObject(conflict);
    const other = route === 'chat' ? 'completions' : 'chat';
    expect(errorOf(await ask(other, { headers: mine }))).toMatchObject(conflict);
    expect(served.provider.requests.length).toBe(before);
  });

  it.each([false, true])('is in progress until the first answer is complete; stream %s', async (stream) => {
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    served.provider.script(async () => {
      reached.resolve();
      await gate.promise;
      return { say: { text: 'Hello.' } };
    });
    const more = { stream, headers: headers() };
    const first = served.begin(...asking('chat', more));
    await reached.promise;
    const early = await ask('chat', more);
    expect(errorOf(early)).toMatchObject({ status: 409, code: 'request_in_progress' });
    expect(errorOf(await ask('chat', { ...more, body: { user: 'me' } }))).toMatchObject({
      code: 'idempotency_conflict',
    });
    gate.resolve();
    const { text } = await answerOf(await first);
    expect((await ask('chat', more)).text).toBe(text);
  });

  it.each([
    ['a failure', { status: 500 }, 502, false],
    ['too many requests', { status: 429 }, 429, false],
    ['a failure before a stream', { status: 503 }, 502, true],
    ['a stream that broke off', { cutAfter: 2, say: { text: 'Some words.' } }, 200, true],
  ])('is free again after %s, which cost nothing', async (_, reply, status, stream) => {
    const more = { stream, headers: headers() };
    served.replies(reply);
    const failed = await ask('chat', more);
    expect(failed.status).toBe(status);
    expect(failed.text).toContain('"error"');
    served.replies({ say: { text: 'At last.' } });
    const whole = await ask('chat', more);
    expect([whole.status, whole.headers.has('x-svc-idempotent-replay')]).toEqual([200, false]);
    expect(whole.text).toContain('At last.');
    expect((await ask('chat', more)).text).toBe(whole.text);
  });

  it('is not consumed by a request that is refused before the upstream request', async () => {
    const mine = headers();
    const body = { model: 'nothing' };
    expect((await ask('chat', { headers: mine, body })).status).toBe(404);
    const ceiling = { ...mine, 'x-svc-max-cost-nanousd': '1' };
    expect((await ask('chat', { headers: ceiling })).status).toBe(402);
    expect((await ask('chat', { headers: mine })).status).toBe(200);
  });

  it('has 1 to 255 characters', async () => {
    for (const value of ['', 'x'.repeat(256)])
      expect(errorOf(await ask('chat', { headers: { 'idempotency-key': value } }))).toMatchObject({
        status: 400,
        param: 'idempotency-key',
      });
    expect((await ask('chat', { headers: { 'idempotency-key': 'x'.repeat(255) } })).status).toBe(200);
  });
});

describe('fallbacks', () => {
  const header = 'x-svc-fallback-models';
  /** The models in `failing` fail, all others answer. */
  const failing = (...names: string[]) =>
    served.provider.script(({ model }) =>
      names.includes(model.replace('up-', ''))
        ? { status: 503 }
        : { say: { text: `I am ${model}.`, usage: { input: 10, output: 5, reasoning: 0 } } },
    );
  const names = ({ headers }: Answer) =>
    ['requested-model', 'effective-model', 'receipt-reason'].map((name) => headers.get(`x-svc-${name}`));

  it.each([false, true])('serve when the model fails, at their own price; stream %s', async (stream) => {
    failing('plain', 'claude');
    const answer = await ask('chat', { stream, headers: { [header]: 'claude, spare ,full' } });
    expect(answer.status).toBe(200);
    expect(names(answer)).toEqual(['plain', 'spare', 'provider_failover']);
    expect(10 ** 12 - (await left())).toBe(Number(usual) * 2);
    if (!stream) expect(cost(answer)).toBe(String(Number(usual) * 2));
    failing();
    const [own, other] = await Promise.all([ask('chat'), ask('chat', { body: { model: 'spare' } })]);
    const identity = (one: Answer) => one.headers.get('x-svc-pricing-identity');
    expect(identity(answer)).toBe(identity(other));
    expect(identity(answer)).not.toBe(identity(own));
  });

  it('of the configuration serve as well', async () => {
    failing('brief');
    expect(names(await ask('chat', { body: { model: 'brief' } }))).toEqual([
      'brief',
      'spare',
      'provider_failover',
    ]);
  });

  it('do not serve when the model does', async () => {
    failing();
    const answer = await ask('chat', { headers: { [header]: 'spare' } });
    expect(names(answer)).toEqual(['plain', 'plain', 'as_requested']);
    expect(cost(answer)).toBe(usual);
  });

  it('do not serve requests that the provider refuses permanently', async () => {
    const before = served.provider.requests.length;
    served.replies({ status: 400, message: 'That is no temperature.' });
    const answer = await ask('chat', { headers: { [header]: 'spare' } });
    expect(errorOf(answer)).toMatchObject({ status: 400, message: expect.stringContaining('temperature') });
    expect(served.provider.requests.length).toBe(before + 1);
  });

  it('that cannot serve the request are skipped; when all fail, the last failure is returned', async () => {
    failing('full', 'spare');
    const before = served.provider.requests.length;
    const tools = [
      { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } },
    ];
    const answer = await ask('chat', {
      body: { model: 'full', tools },
      headers: { [header]: 'plain,spare' },
    });
    expect(errorOf(answer)).toMatchObject({ status: 502, type: 'upstream_error' });
    expect(served.provider.requests.slice(before).map(({ model }) => model)).toEqual(['up-full', 'up-spare']);
  });

  it('are at most three, all of them known', async () => {
    for (const [value, message] of [
      ['full,spare,claude,gemini', /at most 3/],
      ['spare,nothing', /nothing/],
    ] as const)
      expect(errorOf(await ask('chat', { headers: { [header]: value } }))).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
        param: header,
        message: expect.stringMatching(message),
      });
    expect((await ask('chat', { headers: { [header]: 'full,spare,claude' } })).status).toBe(200);
    const scoped = (await served.customer({ credit: 10n ** 12n }, { models: ['plain'] })).secret;
    expect((await ask('chat', { key: scoped, headers: { [header]: 'spare' } })).status).toBe(400);
  });

  it('above the ceiling or the balance are left out', async () => {
    failing('plain');
    const bound = /cost (\d+)/.exec(
      (await ask('chat', { headers: { 'x-svc-max-cost-nanousd': '0' } })).json.error.message,
    )?.[1];
    const headers = { 'x-svc-max-cost-nanousd': String(bound), [header]: 'spare' };
    expect((await ask('chat', { headers })).status).toBe(502);
    const { secret } = await served.customer({ credit: BigInt(bound ?? 0) });
    expect((await ask('chat', { key: secret, headers: { [header]: 'spare' } })).status).toBe(502);
  });
});

it('the ledger agrees with the receipts', async () => {
  expect(await served.books.ledger.audit()).toMatchObject({ ok: true, openHolds: 0 });
  expect(accountId).toMatch(/^a_/);
});
