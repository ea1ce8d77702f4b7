import { connect } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mutated } from '../support/gateway/mutations.ts';
import { type Answer, servedGateway } from '../support/gateway/served.ts';
import { gatewayWorld } from '../support/gateway/world.ts';
import { runsRest } from '../support/tier.ts';

let gateway: Awaited<ReturnType<typeof servedGateway>>;

beforeAll(async () => {
  gateway = await servedGateway('max_body_bytes = 4_194_304\nrequests_per_minute = 1_000_000');
});
afterAll(() => gateway.close());

const messages = [{ role: 'user', content: 'Hello' }];
const chat = { model: 'full', max_tokens: 16, messages };
const responses = { model: 'thinker', max_output_tokens: 16, input: 'Hello' };
const claude = { model: 'claude', max_tokens: 16, messages };
const completion = { model: 'full', max_tokens: 16, prompt: 'Hello' };

const post = (path: string, body: object | string) => gateway.ask(path, { body });
const ofJson = (body: object, more: string) => `${JSON.stringify(body).slice(0, -1)},${more}}`;

function expectRefused({ status, json }: Answer, code: string, requestsBefore: number): void {
  expect({ status, code: json.error.code }).toEqual({ status: 400, code });
  expect(gateway.provider.requests.length).toBe(requestsBefore);
}

describe('requests that could cost more than their bound', () => {
  test.each([
    ['models', ['other']],
    ['route', 'fallback'],
    ['provider', { order: ['dear'] }],
    ['fallbacks', [{ model: 'other' }]],
    ['plugins', [{ id: 'web' }]],
    ['web_search_options', {}],
    ['search_parameters', { mode: 'on' }],
    ['enable_search', true],
    ['mcp_servers', [{}]],
    ['modalities', ['text', 'audio']],
    ['audio', { voice: 'x', format: 'wav' }],
    ['prediction', { type: 'content', content: 'x'.repeat(5000) }],
    ['best_of', 20],
    ['use_beam_search', true],
    ['n_predict', 8000],
    ['max_output_tokens', 8000],
    ['chat_template', '{% for i in range(100000) %}x{% endfor %}'],
    ['documents', [{ text: 'x' }]],
    ['tools', [{ type: 'web_search' }]],
    ['tools', [{ type: 'shell', environment: { type: 'container_auto' } }]],
    [
      'messages',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }],
    ],
    ['messages', [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }]],
    ['messages', [{ role: 'assistant', audio: { id: 'audio_1' } }]],
  ])('%s is refused on the chat wire: %j', async (member, value) => {
    const requestsBefore = gateway.provider.requests.length;
    const answer = await post('/v1/chat/completions', { ...chat, [member]: value });
    expectRefused(answer, 'unsupported_parameter', requestsBefore);
    expect(answer.json.error.param).toMatch(new RegExp(`^${member}`));
  });

  test.each([
    { models: [] },
    { modalities: ['text'] },
    { web_search_options: null },
    { best_of: 1 },
    { tools: [{ type: 'function', function: { name: 'f' } }] },
    { tools: [{ type: 'custom', custom: { name: 'f' } }] },
  ])('members that disable a feature pass: %j', async (more) => {
    expect((await post('/v1/chat/completions', { ...chat, ...more })).status).toBe(200);
    expect(gateway.lastProviderRequest().body).toMatchObject(more);
  });

  test.each(['web_search', 'file_search', 'code_interpreter', 'image_generation', 'mcp', 'advisor_20260301'])(
    'tools of the provider are refused on the responses wire: %s',
    async (type) => {
      const requestsBefore = gateway.provider.requests.length;
      expectRefused(
        await post('/v1/responses', { ...responses, tools: [{ type }] }),
        'unsupported_parameter',
        requestsBefore,
      );
    },
  );

  test('files and summaries of the provider are refused on the other wires', async () => {
    const requestsBefore = gateway.provider.requests.length;
    const source = { type: 'file', file_id: 'file_1' };
    const result = { type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source }] };
    for (const content of [[{ type: 'document', source }], [result]])
      expectRefused(
        await post('/v1/messages', { ...claude, messages: [{ role: 'user', content }] }),
        'unsupported_parameter',
        requestsBefore,
      );
    const context_management = [{ type: 'compaction', compact_threshold: 1000 }];
    expectRefused(
      await post('/v1/responses', { ...responses, context_management }),
      'unsupported_parameter',
      requestsBefore,
    );
    expectRefused(
      await post('/v1/completions', { ...completion, max_completion_tokens: 8000 }),
      'unsupported_parameter',
      requestsBefore,
    );
  });

  test.each(['priority', 'flex', 'scale'])('the service tier %s is not passed on', async (service_tier) => {
    for (const [path, body] of [
      ['/v1/chat/completions', chat],
      ['/v1/responses', responses],
      ['/v1/completions', completion],
    ] as const) {
      expect((await post(path, { ...body, service_tier })).status).toBe(200);
      expect(gateway.lastProviderRequest().body).not.toHaveProperty('service_tier');
    }
  });

  test.each(['MAX_TOKENS', 'Max_Tokens', 'max_to\u212Aens', 'N', 'ſtream', 'MODEL', 'Messages'])(
    'names that some providers take for others are refused: %s',
    async (name) => {
      const requestsBefore = gateway.provider.requests.length;
      expectRefused(
        await post('/v1/chat/completions', { ...chat, [name]: 7000 }),
        'unknown_member',
        requestsBefore,
      );
    },
  );

  test('of duplicate members, only the validated ones are sent', async () => {
    const twice = `{"model":"spare","max_tokens":8000,"n":9,"messages":[],"m\\u006fdel":"full","max_token\\u0073":5,"n":1,"messages":${JSON.stringify(messages)}}`;
    expect((await post('/v1/chat/completions', twice)).status).toBe(200);
    const { text, body } = gateway.lastProviderRequest();
    expect(body).toEqual({ model: 'up-full', n: 1, messages, max_completion_tokens: 5 });
    for (const name of [/"m(o|\\u006f)del"/g, /"n"/g, /"messages"/g, /max_[\w\\]+/g])
      expect(text.match(name)).toHaveLength(1);
  });

  test('of two limits, the validated one is sent', async () => {
    await post('/v1/chat/completions', { ...chat, max_tokens: 7000, max_completion_tokens: 7 });
    expect(gateway.lastProviderRequest().body).toEqual({
      model: 'up-full',
      messages,
      max_completion_tokens: 7,
    });
  });
});

describe('usage that a provider reports', () => {
  const counts = [1e308, -1e308, 1e15, 2 ** 53, 0.5, -1, null, 'x', [], {}, true];

  test('never corrupts the ledger, and is never charged above the hold', async () => {
    const { secret, accountId } = await gateway.customer({ credit: 10n ** 9n });
    let spent = 0n;
    for (const count of counts)
      for (const stream of [false, true]) {
        const usage = {
          prompt_tokens: count,
          completion_tokens: count,
          prompt_tokens_details: { cached_tokens: count, cache_write_tokens: count },
          completion_tokens_details: { reasoning_tokens: count },
        };
        const choice = {
          index: 0,
          finish_reason: 'stop',
          [stream ? 'delta' : 'message']: { role: 'assistant', content: 'ok' },
        };
        const payload = JSON.stringify({ id: 'x', object: 'chat.completion', choices: [choice], usage });
        gateway.replies({ raw: { body: stream ? `data: ${payload}\n\ndata: [DONE]\n\n` : payload } });
        const { status, headers, text } = await gateway.ask('/v1/chat/completions', {
          key: secret,
          body: { ...chat, stream },
        });
        expect(status, text).toBe(200);
        expect(text).not.toContain('server_error');
        const cost = BigInt(headers.get('x-svc-cost-nanousd') ?? 0);
        expect(cost).toBeLessThan(1_000_000n);
        spent += cost;
      }
    gateway.replies({ say: { text: 'Hello.' } });
    expect(await gateway.books.ledger.audit()).toMatchObject({ openHolds: 0, faults: [] });
    const { remaining } = await gateway.books.ledger.balance(accountId);
    expect(remaining).toBeGreaterThanOrEqual(0n);
    expect(remaining).toBeLessThanOrEqual(10n ** 9n - spent);
  });

  test.each(['constructor', '__proto__', 'toString', 'gzip', 'gzip, gzip', 'x'.repeat(5000)])(
    'a body that is packed as %s is no fault of the gateway',
    async (coding) => {
      gateway.replies({ headers: { 'content-encoding': coding } });
      const { status, json } = await post('/v1/chat/completions', chat);
      gateway.replies({ say: { text: 'Hello.' } });
      expect(status).toBe(502);
      expect(json.error.message).toMatch(/cannot be read/);
    },
  );
});

describe('answers of a provider', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;

  test.each([false, true])('that are nested too deeply are not parsed, streamed: %s', async (stream) => {
    const body = `${stream ? 'data: ' : ''}{"choices":${deep}}${stream ? '\n\n' : ''}`;
    gateway.replies({ raw: { body } });
    const { status, json } = await post('/v1/chat/completions', { ...chat, stream });
    gateway.replies({ say: { text: 'Hello.' } });
    expect(status).toBe(502);
    expect(json.error.message).toMatch(/levels/);
  });

  test.runIf(runsRest)('with very many tool calls are passed on one by one', async () => {
    const calls = Array.from({ length: 130_000 }, (_, index) => ({
      index,
      id: `c${index}`,
      function: { name: 'f', arguments: '' },
    }));
    const chunk = {
      id: 'x',
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: { tool_calls: calls } }],
    };
    gateway.replies({ raw: { body: `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n` } });
    const { status, text } = await post('/v1/chat/completions', { ...chat, stream: true });
    gateway.replies({ say: { text: 'Hello.' } });
    expect(status).toBe(200);
    expect(text).toContain('c129999');
    expect(text).not.toContain('server_error');
  });
});

describe('a stream whose caller pauses until the provider disconnects', () => {
  const readerMs = 3000;
  const chunk = (content: string) =>
    `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }] })}\n\n`;
  // More than all buffers between the provider and the caller hold; the second half never comes.
  const many = chunk('word '.repeat(4000)).repeat(1600);
  const largeChunks = chunk('word '.repeat(4000)).repeat(16);

  async function taken(frames: string, pauses: number) {
    const world = await gatewayWorld({ readerMs, limits: { retries: 0 } });
    try {
      world.provider.script([{ raw: { body: frames, contentType: 'text/event-stream' }, cutAfter: 0 }]);
      const customer = await world.customer();
      const body = { model: 'chat', max_tokens: 5000, messages, stream: true };
      const answer = await world.ask('/v1/chat/completions', { customer, body });
      const reader = answer.body?.getReader();
      let [bytes, paused] = [0, 0];
      for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
        bytes += next.value.length;
        if (bytes < (paused + 1) * 350_000 || paused >= pauses) continue;
        paused++;
        // Together longer than the gateway waits for a reader; each of them far from that.
        await new Promise((resolve) => setTimeout(resolve, 0.05 * readerMs));
      }
      expect(bytes).toBeGreaterThan(frames.length / 3);
      const [row] = await world.witness.rows();
      expect(await world.witness.faults()).toEqual([]);
      return { ended: row?.ended, charged: row?.charged };
    } finally {
      await world.close();
    }
  }

  test('is charged for what was read; one that the provider broke off by itself is free', async () => {
    expect(await taken(largeChunks, 0)).toEqual({ ended: 'released', charged: 0n });
    const { ended, charged } = await taken(many, 26);
    expect(ended).toBe('settled');
    expect(charged).toBeGreaterThan(0n);
  });
});

describe('bodies', () => {
  const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

  test.each([
    ['/v1/chat/completions', chat],
    ['/v1/responses', responses],
    ['/v1/messages', claude],
    ['/v1/completions', completion],
    ['/v1/embeddings', { model: 'embedder', input: 'x' }],
  ])('on %s: too deep, too many values, wrong in too many places', async (path, body) => {
    const requestsBefore = gateway.provider.requests.length;
    for (const member of ['tools', 'response_format', 'x', 'messages', 'input', 'prompt'])
      expectRefused(
        await post(path, ofJson(body, `"${member}":${deep(100_000)}`)),
        'json_too_deep',
        requestsBefore,
      );
    expectRefused(
      await post(path, ofJson(body, `"x":[${'1,'.repeat(500_000)}1]`)),
      'json_too_large',
      requestsBefore,
    );
    expectRefused(
      await post(path, ofJson(body, `"x":[${'{},'.repeat(300_000)}1]`)),
      'json_too_large',
      requestsBefore,
    );
    for (const member of ['tools', 'messages', 'input', 'prompt']) {
      const { status, text } = await post(path, ofJson(body, `"${member}":[${'true,'.repeat(50_000)}true]`));
      if (status !== 200) expect(status).toBe(400);
      expect(text.length).toBeLessThan(20_000);
    }
  });

  test.each([
    ['/v1/chat/completions', { ...chat, model: 'gemini' }, 'messages'],
    ['/v1/chat/completions', { ...chat, model: 'claude' }, 'messages'],
    ['/v1/responses', { ...responses, model: 'claude' }, 'input'],
  ])('the maximum number of parts causes no internal error: %s %#', async (path, body, member) => {
    const type = member === 'input' ? 'input_text' : 'text';
    const parts = Array.from({ length: 130_000 }, () => ({ type, text: '' }));
    for (const payload of [
      [{ role: 'user', content: parts }],
      [{ role: 'system', content: parts }, ...messages],
      Array.from({ length: 60_000 }, () => messages[0]),
    ]) {
      const { status, text } = await post(path, { ...body, [member]: payload });
      expect([200, 400], text).toContain(status);
    }
  });

  test('a usual nesting depth passes, and brackets in texts do not count', async () => {
    const nested = JSON.parse(`{"a":${deep(150)}}`) as object;
    const tools = [{ type: 'function', function: { name: 'f', parameters: nested } }];
    const content = `${'['.repeat(5000)}\\"${'{,'.repeat(500_000)}`;
    const answer = await post('/v1/chat/completions', {
      ...chat,
      tools,
      messages: [{ role: 'user', content: content.slice(0, 50_000) }],
    });
    expect(answer.status).toBe(200);
  });

  test('the memory of one key for unfinished bodies is limited', async () => {
    const { port } = new URL(gateway.url);
    const { secret } = await gateway.customer({ credit: 0n });
    const half = 'x'.repeat(4_000_000);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${secret}\r\ncontent-type: application/json\r\ncontent-length: 4100000\r\n\r\n`;
    const answers = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const socket = connect(Number(port), '127.0.0.1');
        socket.on('error', () => undefined).write(head + half);
        let received = '';
        // The ones that fit wait for the rest of their body.
        const over = new Promise<void>((resolve) => {
          socket.on('data', (bytes) => (received += String(bytes)) && resolve());
          socket.on('close', resolve);
        });
        return { socket, over, received: () => received };
      }),
    );
    await Promise.any(answers.map(({ over }) => over));
    expect((await post('/v1/chat/completions', chat)).status).toBe(200);
    for (const { socket } of answers) socket.destroy();
  });
});

describe('malformed HTTP requests', () => {
  const raw = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
      let received = '';
      socket.on('data', (bytes) => {
        received += String(bytes);
      });
      socket.on('close', () => resolve(received));
      socket.on('error', reject);
      socket.end(text);
    });
  const headed = (...lines: string[]) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n${lines.join('\r\n')}\r\n\r\n`;
  const smuggled = 'GET /v1/catalog HTTP/1.1\r\nhost: x\r\n\r\n';

  test.each([
    ['both lengths', headed('content-length: 4', 'transfer-encoding: chunked') + `0\r\n\r\n${smuggled}`],
    ['two lengths', headed('content-length: 0', 'content-length: 44') + smuggled],
    ['a length with a sign', headed('content-length: +3') + `abc${smuggled}`],
    ['a coding that is hidden', headed('transfer-encoding: xchunked') + `0\r\n\r\n${smuggled}`],
    ['a space before the colon', headed('transfer-encoding : chunked') + `0\r\n\r\n${smuggled}`],
    ['a folded header', headed('x: y', ' content-length: 9') + smuggled],
    ['a bare line feed', `POST /v1/chat/completions HTTP/1.1\nhost: x\ncontent-length: 0\n\n${smuggled}`],
    [
      'a length of a chunk beyond all',
      headed('transfer-encoding: chunked') + `ffffffffffffffffff\r\n${smuggled}`,
    ],
    ['an unknown version', `GET /v1/catalog HTTP/9.9\r\nhost: x\r\n\r\n${smuggled}`],
  ])('%s: rejected, and nothing after it is answered', async (_, text) => {
    const payload = await raw(text);
    expect(payload.match(/HTTP\/1\.1 \d/g)?.length ?? 0).toBeLessThanOrEqual(1);
    expect(payload).not.toMatch(/HTTP\/1\.1 2/);
  });

  test('pipelined requests are answered in order, each with its own receipt', async () => {
    const one = 'GET /v1/catalog HTTP/1.1\r\nhost: x\r\n\r\n';
    const last = 'GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    const payload = await raw(one.repeat(20) + last);
    expect(payload.match(/HTTP\/1\.1 \d+/g)).toEqual([
      ...Array.from({ length: 20 }, () => 'HTTP/1.1 200'),
      'HTTP/1.1 401',
    ]);
    expect(new Set(payload.match(/^x-svc-request-id: .+/gm)).size).toBe(21);
  });

  test('any model name is safe in headers', async () => {
    for (const model of [
      'a\r\nset-cookie: a=b',
      'a\u0000b',
      '\ud800',
      '😀'.repeat(300),
      '__proto__',
      'constructor',
      'vllm:x/\r\n',
    ]) {
      const { status, headers } = await post('/v1/chat/completions', { ...chat, model });
      // Half a surrogate pair is no text, so no id at all.
      expect(status).toBe(model.isWellFormed() ? 404 : 400);
      expect(headers.has('set-cookie')).toBe(false);
    }
  });
});

describe('random bodies', () => {
  const usual = [
    [
      '/v1/chat/completions',
      {
        ...chat,
        stream: false,
        tools: [
          { type: 'function', function: { name: 'f', description: 'd', parameters: { type: 'object' } } },
        ],
        stop: ['x'],
        reasoning: { effort: 'low' },
        stream_options: { include_usage: true },
      },
    ],
    [
      '/v1/chat/completions',
      {
        ...chat,
        model: 'claude',
        messages: [
          ...messages,
          {
            role: 'assistant',
            content: 'x',
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
          },
          { role: 'tool', tool_call_id: 'c', content: 'y' },
        ],
      },
    ],
    [
      '/v1/chat/completions',
      {
        ...chat,
        model: 'gemini',
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object', properties: { a: { type: 'string' } } } },
        },
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'x' },
              { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
            ],
          },
        ],
      },
    ],
    [
      '/v1/responses',
      {
        ...responses,
        stream: false,
        instructions: 'x',
        tools: [{ type: 'function', name: 'f', parameters: {} }],
        text: { format: { type: 'text' } },
        reasoning: { effort: 'low' },
        include: ['reasoning.encrypted_content'],
        input: [
          { role: 'user', content: [{ type: 'input_text', text: 'x' }] },
          { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
          { type: 'function_call_output', call_id: 'c', output: 'x' },
        ],
      },
    ],
    ['/v1/responses', { ...responses, model: 'claude', input: [{ role: 'user', content: 'x' }] }],
    [
      '/v1/messages',
      {
        ...claude,
        stream: false,
        system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }],
        thinking: { type: 'disabled' },
        tools: [{ name: 'f', input_schema: { type: 'object' } }],
        stop_sequences: ['x'],
      },
    ],
    ['/v1/completions', { ...completion, n: 1, best_of: 1, echo: false, stop: 'x', suffix: 'y' }],
    ['/v1/embeddings', { model: 'embedder', input: ['a', 'b'], encoding_format: 'float', dimensions: 3 }],
    ['/v1/keys/oai', { api_key: 'sk-own-abcdefghij' }],
    ['/v1/keys/azure', { api_key: 'sk-own-abcdefghij', base_url: 'http://169.254.169.254' }],
  ] as const;

  test.each(usual)('on %s (%#): rejected or answered, never an internal error', async (path, body) => {
    await fc.assert(
      fc.asyncProperty(mutated(body), async (wrong) => {
        const method = path.startsWith('/v1/keys') ? 'PUT' : 'POST';
        const { status, text } = await gateway.ask(path, { method, body: JSON.stringify(wrong) });
        expect([200, 400, 404, 413, 422], text).toContain(status);
      }),
      { numRuns: 60 },
    );
    expect(gateway.child.output.stderr).toBe('');
    expect(await gateway.books.ledger.audit()).toMatchObject({ openHolds: 0, faults: [] });
  });
});
