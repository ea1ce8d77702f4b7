/** Hooks of the gateway, over HTTP: what they are asked, what their verdicts do, and what happens when they fail. */
import { afterEach, describe, expect, it } from 'vitest';
import { type CallerWire, wires } from '../support/gateway/asks.ts';
import { nowDrained } from '../support/gateway/drained.ts';
import { costOf, fileWorld, modelTables } from '../support/gateway/file-world.ts';
import { type HookAnswer, hookService } from '../support/gateway/hook-service.ts';
import type { FakeProvider } from '../support/gateway/provider.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const secret = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const say = { text: 'The answer is 42.', usage: { input: 100, output: 50 } };
const usualCost = costOf(100, 50);

/** Tables of hooks. @param url where the hooks are */
type Hooks = (url: string) => string;
const hook =
  (name: string, more = '') =>
  (url: string) =>
    `[[hooks]]\nname = "${name}"\nurl = "${url}/${name}"\nsecret_env = "HOOK"\n${more}\n`;
const before = hook('policy');
const after = hook('review', 'stage = "after"');

async function world(hooks: Hooks, end = '') {
  const service = await hookService(secret);
  undo.push(() => service.close());
  const toml =
    (next: Hooks, nextEnd = end) =>
    (provider: FakeProvider) =>
      `${modelTables(provider)}${next(service.url)}${nextEnd}\n[limits]\nretries = 0\ndrain_secs = 1\n`;
  const at = await fileWorld(toml(hooks), { env: { HOOK: secret } });
  const expectedFaults: RegExp[] = [];
  undo.push(async () => {
    await nowDrained(at.gateway);
    const faults = at.faults.filter((text) => !expectedFaults.some((one) => one.test(text)));
    expect([await at.witness.faults(), faults, service.faults]).toEqual([[], [], []]);
    await at.close();
  });
  at.provider.script([{ say }]);
  const customer = await at.customer();
  const { ledger } = at.witness.books;
  const spent = async () => 10n ** 12n - (await ledger.balance(customer.accountId)).remaining;
  const send = async ({
    wire = 'chat',
    model = 'chat',
    stream = false,
    content,
    more = {},
    headers = {},
  }: {
    wire?: CallerWire;
    model?: string;
    stream?: boolean;
    content?: string;
    more?: object;
    headers?: Record<string, string>;
  } = {}) => {
    const { path, body } = wires[wire];
    const response = await at.ask(path, {
      customer,
      body: { ...body(model, stream, content), ...more },
      headers,
    });
    return {
      status: response.status,
      text: await response.text(),
      headers: response.headers,
      header: (name: string) => response.headers.get(`x-svc-${name}`),
    };
  };
  return {
    ...at,
    service,
    customer,
    spent,
    send,
    asked: () => at.provider.requests.length,
    /** Faults that this test causes. */
    expectFaults: (...patterns: RegExp[]) => expectedFaults.push(...patterns),
    reload: (next: Hooks, nextEnd?: string) => at.edit(toml(next, nextEnd)),
  };
}

const forms = [
  ['chat', 'chat'],
  ['chat', 'claude'],
  ['responses', 'responses'],
  ['messages', 'claude'],
  ['completions', 'chat'],
] as const satisfies readonly (readonly [CallerWire, string])[];
const streams = forms.flatMap(([wire, model]) =>
  [false, true].map((stream) => [wire, model, stream ? 'a stream' : 'buffered', stream] as const),
);

describe('a hook before the request', () => {
  it('is asked about every text that a model may read, signed, with ids', async () => {
    const { send, service, customer } = await world(before);
    const answer = await send({
      more: {
        user: 'ann@example.com',
        messages: [
          { role: 'system', content: 'Be brief.' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Look at this.' },
              { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            ],
          },
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'find', arguments: '{"q":"x"}' } }],
          },
          { role: 'tool', tool_call_id: 'c1', content: 'Found.' },
        ],
        tools: [
          {
            type: 'function',
            function: { name: 'find', description: 'Finds.', parameters: { type: 'object' } },
          },
        ],
        tomorrow: { text: 'Hidden?' },
      },
    });
    expect(answer.status).toBe(200);
    const [question] = service.asked;
    expect(question).toMatchObject({
      path: '/policy',
      type: 'request.before',
      data: {
        hook: 'policy',
        request_id: answer.header('request-id'),
        account_id: customer.accountId,
        key_id: customer.keyId,
        model: 'chat',
        wire: 'chat',
        stream: false,
      },
    });
    const texts = question?.data.texts.map(({ role, path, text }) => [path, role, text]);
    expect(texts).toEqual([
      ['messages.0.content', 'system', 'Be brief.'],
      ['messages.1.content.0.text', 'user', 'Look at this.'],
      ['messages.2.tool_calls.0.function.name', 'assistant', 'find'],
      ['messages.2.tool_calls.0.function.arguments', 'assistant', '{"q":"x"}'],
      ['messages.3.content', 'tool', 'Found.'],
      ['user', undefined, 'ann@example.com'],
      ['tools.0.function.name', undefined, 'find'],
      ['tools.0.function.description', undefined, 'Finds.'],
      ['tools.0.function.parameters.type', undefined, 'object'],
      ['tomorrow.text', undefined, 'Hidden?'],
    ]);
    expect(question?.data.texts.map(({ index }) => index)).toEqual(texts?.map((_, index) => index));
  });

  it.each([...streams, ['embeddings', 'embedder', 'buffered', false] as const])(
    'blocks a request on %s of %s, %s: an error of the wire, no provider, no charge',
    async (wire, model, _form, stream) => {
      const { send, service, asked, spent, metric } = await world(before);
      service.answers(() => ({ action: 'block', reason: 'It names a competitor.' }));
      const { status, text, header } = await send({ wire, model, stream });
      expect(status).toBe(400);
      const body = JSON.parse(text) as { type?: string; error: object };
      expect(body.error).toMatchObject({
        type: 'invalid_request_error',
        code: 'blocked_by_hook',
        hook: 'policy',
        message: "The hook 'policy' of this gateway blocked the request: It names a competitor.",
      });
      if (wire === 'messages') expect(body.type).toBe('error');
      expect(header('cost-nanousd')).toBe('0');
      expect([asked(), await spent()]).toEqual([0, 0n]);
      expect(metric('lathe_gateway_hook_seconds', { hook: 'policy', outcome: 'blocked' })).toBeDefined();
    },
  );

  it.each(streams)('replaces texts on %s of %s, %s', async (wire, model, _form, stream) => {
    const { send, service, provider } = await world(before);
    service.answers(({ data }) => ({
      action: 'replace',
      texts: data.texts
        .filter(({ text }) => text === 'Call 555-1234.')
        .map(({ index }) => ({ index, text: 'Call <number>.' })),
    }));
    expect(await send({ wire, model, stream, content: 'Call 555-1234.' })).toMatchObject({ status: 200 });
    expect(provider.requests[0]?.text).toContain('Call <number>.');
    expect(provider.requests[0]?.text).not.toContain('555');
  });

  it('keeps all other members of a request that it changes', async () => {
    const { send, service, provider } = await world(before);
    service.answers(() => ({ action: 'replace', texts: [{ index: 0, text: 'Other.' }] }));
    await send({ more: { temperature: 0.25, logit_bias: { 7: -1 }, tomorrow: [1, { a: null }] } });
    expect(provider.requests[0]?.body).toMatchObject({
      messages: [{ role: 'user', content: 'Other.' }],
      temperature: 0.25,
      logit_bias: { 7: -1 },
      tomorrow: [1, { a: null }],
      max_tokens: 200,
    });
  });

  it('sees what the one before it replaced, in the order of the file', async () => {
    const { send, service, provider } = await world((url) => hook('one')(url) + hook('two')(url));
    service.answers(({ data: { hook: name, texts } }) => ({
      action: 'replace',
      texts: [{ index: 0, text: `${texts[0]?.text} ${name}` }],
    }));
    await send({ content: 'zero' });
    expect(provider.requests[0]?.body).toMatchObject({ messages: [{ content: 'zero one two' }] });
  });

  it('checks the requests to its models, and those that may fall back to one', async () => {
    const { send, service } = await world(
      hook('policy', 'models = ["claude"]'),
      '[[fallbacks]]\nmodel = "responses"\nto = ["claude"]\n',
    );
    await send();
    expect(service.asked).toHaveLength(0);
    await send({ model: 'claude' });
    await send({ model: 'responses' });
    expect(service.asked.map(({ data }) => data.model)).toEqual(['claude', 'responses']);
    await send({ headers: { 'x-svc-fallback-models': 'claude' } });
    expect(service.asked).toHaveLength(3);
  });

  it('sees all that is sent: a member that is there twice is sent once', async () => {
    const { service, provider, url, customer } = await world(before);
    const body =
      '{"model":"chat","max_tokens":9,"messages":[{"role":"user","content":"Hidden.","content":"Seen."}],"__proto__":"Odd."}';
    const headers = { authorization: `Bearer ${customer.secret}`, 'content-type': 'application/json' };
    const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
    expect(answer.status).toBe(200);
    expect(service.asked[0]?.data.texts).toEqual([
      { index: 0, role: 'user', path: 'messages.0.content', text: 'Seen.' },
      { index: 1, path: '__proto__', text: 'Odd.' },
    ]);
    expect(provider.requests[0]?.text).toContain('Seen.');
    expect(provider.requests[0]?.text).not.toContain('Hidden.');
  });

  it('is not passed by a fallback that can answer only after another hook shortened the request', async () => {
    const small = `[[models]]
id = "small"
provider = "at-chat"
family = "chat"
caps = ["chat"]
context_window = 500
max_output_tokens = 300
in_usd_per_mtok = "1"
out_usd_per_mtok = "4"
`;
    const { send, service, provider } = await world(
      (url) => hook('policy')(url) + hook('guard', 'models = ["small"]')(url),
      small,
    );
    service.answers(() => ({ action: 'replace', texts: [{ index: 0, text: 'Short.' }] }));
    provider.script(({ model }) => (model === 'small' ? { say } : { status: 500 }));
    const headers = { 'x-svc-fallback-models': 'small' };
    const content = 'A long text. '.repeat(5000);
    expect((await send({ content, headers })).status).toBe(502);
    expect(provider.requests.map(({ model }) => model)).not.toContain('small');
    // One that was checked may answer.
    expect((await send({ headers })).status).toBe(200);
    expect(service.asked.map(({ data }) => data.hook)).toEqual(['policy', 'policy', 'guard']);
  });

  it('cannot be passed with token ids', async () => {
    const { send, asked, service } = await world(before);
    const refused = await send({ wire: 'completions', more: { prompt: [[72, 105]] } });
    expect(refused.status).toBe(400);
    expect(JSON.parse(refused.text)).toMatchObject({
      error: { code: 'unsupported_parameter', param: 'prompt' },
    });
    expect((await send({ wire: 'embeddings', model: 'embedder', more: { input: [1, 2] } })).status).toBe(400);
    expect([asked(), service.asked.length]).toEqual([0, 0]);
  });

  it('is not asked again for a replay of an idempotency key, whose body is what the caller sent', async () => {
    const { send, service, asked } = await world(before);
    service.answers(() => ({ action: 'replace', texts: [{ index: 0, text: 'Other.' }] }));
    const headers = { 'idempotency-key': 'k' };
    const first = await send({ headers });
    const again = await send({ headers });
    expect(again.text).toBe(first.text);
    expect([service.asked.length, asked()]).toEqual([1, 1]);
    expect((await send({ headers, content: 'Another body.' })).status).toBe(409);
  });
});

describe('a hook after the answer', () => {
  it('is asked about the texts of the answer and the arguments of its calls', async () => {
    const { send, service, provider } = await world(after);
    provider.script([{ say: { text: 'I look.', calls: [{ name: 'find', arguments: { q: 'x' } }] } }]);
    const more = {
      tools: [{ type: 'function', function: { name: 'find', parameters: { type: 'object' } } }],
    };
    await send({ more });
    expect(service.asked[0]).toMatchObject({
      type: 'answer.after',
      data: {
        texts: [
          { index: 0, role: 'assistant', choice: 0, text: 'I look.' },
          { index: 1, role: 'tool_call', choice: 0, name: 'find', text: '{"q":"x"}' },
        ],
      },
    });
  });

  it.each(streams)('lets the answer on %s of %s, %s, pass as it is', async (wire, model, _form, stream) => {
    const { send, service, reload } = await world(after);
    const checked = await send({ wire, model, stream });
    expect(service.asked).toHaveLength(1);
    expect(service.asked[0]?.data.texts.at(-1)).toMatchObject({ role: 'assistant', text: say.text });
    await reload(() => '');
    const plain = await send({ wire, model, stream });
    expect(service.asked).toHaveLength(1);
    const same = (text: string) =>
      text.replaceAll(/req_[0-9a-f]{32}|"created(?:_at)?":\d+|[a-z]+[-_][0-9a-f]{32}/g, '');
    expect(same(checked.text)).toBe(same(plain.text));
    expect(checked.header('cost-nanousd')).toBe(plain.header('cost-nanousd'));
    expect(checked.headers.get('content-type')).toBe(plain.headers.get('content-type'));
  });

  it.each(streams)(
    'blocks the answer on %s of %s, %s: none of it is sent, and what the provider charged is paid',
    async (wire, model, _form, stream) => {
      const { send, service, spent, witness } = await world(after);
      service.answers(() => ({ action: 'block', reason: 'A secret.' }));
      const { status, text, header, headers } = await send({ wire, model, stream });
      expect(status).toBe(400);
      expect(text).not.toContain('The answer is');
      expect(JSON.parse(text)).toMatchObject({
        error: {
          code: 'blocked_by_hook',
          hook: 'review',
          message: "The hook 'review' of this gateway blocked the answer: A secret.",
        },
      });
      expect(header('cost-nanousd')).toBe(String(usualCost));
      expect(headers.get('x-should-retry')).toBe('false');
      expect(await spent()).toBe(BigInt(usualCost));
      expect(await witness.row(header('request-id') ?? '')).toMatchObject({
        ended: 'settled',
        charged: BigInt(usualCost),
        status: 400n,
        outcome: 'failed',
      });
    },
  );

  it.each(streams)('replaces the answer on %s of %s, %s', async (wire, model, _form, stream) => {
    const { send, service, spent } = await world(after);
    service.answers(({ data }) => ({
      action: 'replace',
      texts: data.texts.map(({ index, text }) => ({ index, text: text.replace('42', '[number]') })),
    }));
    const { status, text } = await send({ wire, model, stream });
    expect(status).toBe(200);
    expect(text).toContain('The answer is [number].');
    expect(text).not.toContain('is 42');
    expect(await spent()).toBe(BigInt(usualCost));
  });

  it('is asked about texts that only the provider has a member for; an answer with one replaced is sent without it', async () => {
    const { send, service, provider } = await world(after);
    const message = {
      role: 'assistant',
      content: 'Seen.',
      tool_calls: [{ id: 'c1', type: 'custom', custom: { name: 'run', input: 'Hidden.' } }],
    };
    const usage = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    const body = JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices,
      usage,
    });
    provider.script([{ raw: { body } }]);
    const more = { tools: [{ type: 'custom', custom: { name: 'run' } }] };
    expect((await send({ more })).text).toContain('Hidden.');
    const texts = service.asked[0]?.data.texts ?? [];
    expect(texts.map(({ role, text }) => `${role} ${text}`)).toEqual([
      'assistant Seen.',
      'other run',
      'other Hidden.',
    ]);
    service.answers(() => ({ action: 'block' }));
    expect((await send({ more })).status).toBe(400);
    service.answers(() => ({ action: 'replace', texts: [{ index: 2, text: '' }] }));
    const replaced = await send({ more });
    expect(replaced.text).toContain('Seen.');
    expect(replaced.text).not.toContain('Hidden.');
  });

  it('does not make a stream seem slow that has begun: no second deployment is asked', async () => {
    const two = `[[models]]
id = "two"
family = "chat"
caps = ["chat"]
context_window = 10_000
max_output_tokens = 1000
in_usd_per_mtok = "1"
out_usd_per_mtok = "4"
hedge = true
[[models.deployments]]
provider = "at-chat"
upstream = "first"
[[models.deployments]]
provider = "at-chat"
upstream = "second"
priority = 2
`;
    const { send, provider } = await world(after, two);
    const later = () => new Promise<void>((resolve) => setTimeout(resolve, 1300));
    provider.script([{ say, hold: (frame) => (frame === 2 ? later() : undefined) }]);
    await send({ model: 'two', stream: true, headers: { 'x-svc-hedge': '1s' } });
    expect(provider.requests.map(({ model }) => model)).toEqual(['first']);
  });

  it('does not make free what a caller who disconnects leaves of a stream', async () => {
    const { ask, customer, provider, witness } = await world(after);
    provider.script([{ say: { text: 'A long answer. '.repeat(40) }, stallAfter: 4 }]);
    const caller = new AbortController();
    const { path, body } = wires.chat;
    const answer = ask(path, { customer, body: body('chat', true), signal: caller.signal });
    await expect.poll(() => provider.requests.length).toBe(1);
    caller.abort();
    await expect(answer).rejects.toThrow();
    const row = await witness.rowOf(customer);
    expect(row).toMatchObject({ ended: 'settled', outcome: 'client_gone' });
    expect(row.cost_output).toBeGreaterThan(0n);
  });

  it('sends a failure of the provider as without it', async () => {
    const { send, service, provider, spent } = await world(after);
    provider.script([{ say, cutAfter: 3 }]);
    expect((await send({ stream: true })).status).toBe(502);
    expect([service.asked.length, await spent()]).toEqual([0, 0n]);
  });

  it('is not asked about an answer from the cache, which it has checked; what it blocked is not stored', async () => {
    const { send, service, asked } = await world(after, '[cache]\n');
    service.answers(() => ({ action: 'block' }));
    await send();
    service.answers(() => ({ action: 'replace', texts: [{ index: 0, text: 'Checked.' }] }));
    await send();
    await expect.poll(async () => (await send()).header('receipt-reason')).toBe('cached');
    const count = service.asked.length;
    expect((await send()).text).toContain('Checked.');
    expect(service.asked).toHaveLength(count);
    expect(asked()).toBe(count);
  });
});

describe('a hook that fails', () => {
  const failures: readonly (readonly [string, HookAnswer, RegExp])[] = [
    ['hangs', () => undefined, /no answer within 150 ms/],
    [
      'hangs in the middle of its answer',
      (response) => void response.writeHead(200).write('{'),
      /no answer within 150 ms/,
    ],
    ['is not there', (response) => void response.socket?.destroy(), /failed: /],
    ['answers with garbage', (response) => void response.end('<html>'), /its answer is not JSON/],
    ['answers with another shape', { action: 'perhaps' }, /its answer must be/],
    [
      'replaces a text that it was not sent',
      { action: 'replace', texts: [{ index: 99, text: '' }] },
      /replaces text 99/,
    ],
    [
      'answers with 10 MB',
      (response) => void response.end(Buffer.alloc(10_000_000, ' ')),
      /has more than \d+ bytes/,
    ],
    [
      'answers with status 500',
      (response) => void response.writeHead(500).end('{"action":"allow"}'),
      /status 500/,
    ],
    [
      'redirects',
      (response) => void response.writeHead(307, { location: '/elsewhere' }).end(),
      /status 307: redirects are not followed/,
    ],
  ];

  it.each(failures)(
    'because it %s: the request is refused before the provider, free of charge',
    async (_how, answer, why) => {
      const { send, service, asked, spent, faults, expectFaults } = await world(
        hook('policy', 'timeout_ms = 150'),
      );
      expectFaults(/the hook 'policy' failed/);
      service.answers(() => answer);
      const { status, text } = await send();
      expect(status).toBe(503);
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'hook_failed', hook: 'policy' } });
      expect(text).not.toContain(service.url);
      expect([asked(), await spent(), service.asked.length]).toEqual([0, 0n, 1]);
      expect(faults.join('\n')).toMatch(why);
    },
  );

  it.each(failures)('because it %s, with on_failure = "allow": the request passes', async (_how, answer) => {
    const { send, service, metric, expectFaults } = await world(
      hook('policy', 'timeout_ms = 150\non_failure = "allow"'),
    );
    expectFaults(/the hook 'policy' failed/);
    service.answers(() => answer);
    expect((await send()).text).toContain(say.text);
    expect(metric('lathe_gateway_hook_seconds', { hook: 'policy', outcome: 'failed' })).toBeDefined();
  });

  it.each([false, true])('after the answer: it is not sent, but charged (stream: %s)', async (stream) => {
    const { send, service, spent, expectFaults } = await world(after);
    expectFaults(/the hook 'review' failed/);
    service.answers(() => ({ action: 'perhaps' }));
    const { status, text, headers } = await send({ stream });
    expect(status).toBe(503);
    expect(text).not.toContain('The answer is');
    expect(headers.get('x-should-retry')).toBe('false');
    expect(await spent()).toBe(BigInt(usualCost));
  });

  it('after the answer, with on_failure = "allow": it is sent, and not stored in the cache', async () => {
    const { send, service, asked, expectFaults } = await world(
      hook('review', 'stage = "after"\non_failure = "allow"'),
      '[cache]\n',
    );
    expectFaults(/the hook 'review' failed/);
    service.answers(() => ({ action: 'perhaps' }));
    expect((await send()).text).toContain(say.text);
    // Stored after the first one, if that is.
    service.answers(() => ({ action: 'allow' }));
    await send({ content: 'Another.' });
    await expect
      .poll(async () => (await send({ content: 'Another.' })).header('receipt-reason'))
      .toBe('cached');
    const count = asked();
    expect((await send()).header('receipt-reason')).toBe('as_requested');
    expect(asked()).toBe(count + 1);
  });
});

describe('redact', () => {
  const redact =
    (value = 'true', more = '') =>
    () =>
      `[[hooks]]\nname = "privacy"\nredact = ${value}\n${more}\n`;
  const content = 'I am ann@example.com and my key is sk-abcdefghijklmnopqrstuvwx, ok?';

  it.each(streams)(
    'keeps addresses and credentials from the provider on %s of %s, %s',
    async (wire, model, _form, stream) => {
      const { send, provider } = await world(redact());
      expect((await send({ wire, model, stream, content })).status).toBe(200);
      const sent = provider.requests[0]?.text ?? '';
      expect(sent).toContain('I am [redacted] and my key is [redacted], ok?');
      expect(sent).not.toMatch(/ann@|sk-abc/);
    },
  );

  it('covers names of members, escapes and numbers in the arguments of calls', async () => {
    const { send, provider } = await world(redact('["@emails", "[0-9]{3}-[0-9]{4}", "[0-9]{16}"]'));
    const calls = (...texts: string[]) =>
      texts.map((text, at) => ({ id: `c${at}`, type: 'function', function: { name: 'f', arguments: text } }));
    const tool_calls = calls(
      '{"ann@example.com":{"role":"admin"}}',
      '{"to":"ann\\u0040example.com"}',
      '{"card":4111111111111111,"n":1}',
    );
    const properties = { 'ann@example.com': { type: 'string' } };
    await send({
      more: {
        messages: [{ role: 'assistant', content: null, tool_calls }],
        tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties } } }],
      },
    });
    expect(provider.requests[0]?.body).toMatchObject({
      messages: [
        {
          tool_calls: calls(
            '{"[redacted]":{"role":"admin"}}',
            '{"to":"[redacted]"}',
            '{"card":"[redacted]","n":1}',
          ),
        },
      ],
      tools: [{ function: { parameters: { properties: { '[redacted]': { type: 'string' } } } } }],
    });
  });

  it('covers calls, results, tools, the end user and members that the gateway does not know', async () => {
    const { send, provider, witness } = await world(redact());
    const address = 'ann@example.com';
    const answer = await send({
      more: {
        user: address,
        messages: [
          {
            role: 'assistant',
            content: null,
            tool_calls: [
              {
                id: 'c1',
                type: 'function',
                function: { name: 'mail', arguments: `{"to":"${address}","n":1}` },
              },
            ],
          },
          { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: `Sent to ${address}` }] },
          { role: 'user', name: address, content: [{ type: 'new', text: address }] },
        ],
        tools: [
          { type: 'function', function: { name: 'mail', description: `As ${address}`, parameters: {} } },
        ],
        tomorrow: [{ deep: address }],
      },
    });
    expect(answer.status).toBe(200);
    const { text = '', body } = provider.requests[0] ?? {};
    expect(text).not.toContain('ann');
    expect(body).toMatchObject({
      messages: [{ tool_calls: [{ function: { arguments: '{"to":"[redacted]","n":1}' } }] }, {}, {}],
    });
    // The usage of the end user is the operator's own.
    expect((await witness.row(answer.header('request-id') ?? '')).tag).toBe(address);
  });

  it('takes patterns of its own, before hooks that come later', async () => {
    const { send, provider, service } = await world(
      (url) => redact('["@emails", "[0-9]{3}-[0-9]{4}"]')() + before(url),
    );
    await send({ content: 'Call 555-1234 or bob@example.org; sk-abcdefghijklmnopqrstuvwx' });
    const expected = 'Call [redacted] or [redacted]; sk-abcdefghijklmnopqrstuvwx';
    expect(provider.requests[0]?.body).toMatchObject({ messages: [{ content: expected }] });
    expect(service.asked[0]?.data.texts[0]?.text).toBe(expected);
  });

  it('refuses a request on which its patterns take too long', async () => {
    const { send, asked, expectFaults } = await world(redact('["a.*z|b"]'));
    expectFaults(/its expressions take too long/);
    const { status, text } = await send({ content: 'ab'.repeat(40_000) });
    expect([status, asked()]).toEqual([503, 0]);
    expect(text).toContain('hook_failed');
  }, 60_000);

  it('is in force as soon as the configuration is reloaded', async () => {
    const { send, provider, reload } = await world(() => '');
    await send({ content });
    expect(provider.requests[0]?.text).toContain('ann@example.com');
    expect(await reload(redact())).toMatchObject({ outcome: 'replaced' });
    await send({ content });
    expect(provider.requests[1]?.text).not.toContain('ann@example.com');
  });
});
