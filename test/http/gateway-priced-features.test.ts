/** Tiers, audio and tools of the provider, over HTTP: what is sent, what is held, what the receipts say; and what is refused. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { GatewayFile } from '../../src/gateway/config/gateway-file.ts';
import { openGateway } from '../../src/gateway/open.ts';
import { listen } from '../../src/gateway/serve/listen.ts';
import { freshSqlite } from '../support/databases.ts';
import { type FakeProvider, fakeProvider } from '../support/gateway/provider.ts';
import { ask, type Customer, customerOf, Witness } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';

const wires = {
  chat: 'openai-chat',
  responses: 'openai-responses',
  claude: 'anthropic-messages',
  gemini: 'google',
} as const;
type Name = keyof typeof wires;

const modelText = (id: string, provider: string, family: string, more = '') => `
[[models]]
id = "${id}"
provider = "${provider}"
family = "${family}"
caps = ["chat", "completions", "tools", "images"]
context_window = 10_000
max_output_tokens = 1_000
in_usd_per_mtok = "2"
out_usd_per_mtok = "8"
${more}`;
const priced = `in_audio_usd_per_mtok = "32"
out_audio_usd_per_mtok = "64"
hosted_tools = { web_search_usd_per_call = "0.01", file_search_usd_per_call = "0.0025", code_interpreter_usd_per_call = "0.03", max_calls = 3 }
[models.tiers]
flex = { in_usd_per_mtok = "1", out_usd_per_mtok = "4" }
priority = { in_usd_per_mtok = "4", out_usd_per_mtok = "16" }
`;

let provider: FakeProvider;
let url: string;
let witness: Witness;
let customer: Customer;
const undo: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  provider = await fakeProvider();
  const names = Object.entries(wires);
  const source = `${names
    .map(
      ([id, wire]) =>
        `[[providers]]\nid = "at-${id}"\nwire = "${wire}"\nbase_url = "${provider.baseUrl(wire)}"\n`,
    )
    .join('')}
${names
  .map(([id]) => {
    const family = id === 'claude' ? 'anthropic' : id === 'gemini' ? 'google' : 'openai';
    return modelText(id, `at-${id}`, family, priced) + modelText(`plain-${id}`, `at-${id}`, family);
  })
  .join('')}`;
  const config = await new GatewayFile(source, { name: 'gateway.toml', folder: '/', env: {} }).config();
  const database = freshSqlite();
  const faults: unknown[] = [];
  const gateway = await openGateway({
    config,
    database,
    onFault: (where, error) => faults.push([where, error]),
    onNotice: (message) => faults.push(message),
  });
  const listener = await listen(gateway.app, { host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${listener.port}`;
  witness = new Witness(await ledgerOn(database));
  customer = await customerOf(witness.books);
  undo.push(async () => {
    expect([await witness.faults(), faults]).toEqual([[], []]);
    const closed = listener.close();
    await gateway.close(0);
    listener.destroyConnections();
    await closed;
    await witness.books.close();
    await provider.close();
  });
});
afterAll(async () => {
  for (const step of undo) await step();
});
beforeEach(() => provider.script([{ say: { text: 'Yes.', usage: { input: 100, output: 10 } } }]));

const messages = [{ role: 'user', content: 'Hello' }];
const bodies: Readonly<Record<'chat' | 'responses' | 'messages' | 'completions', readonly [string, object]>> =
  {
    chat: ['/v1/chat/completions', { messages, max_tokens: 50 }],
    responses: ['/v1/responses', { input: 'Hello', max_output_tokens: 50 }],
    messages: ['/v1/messages', { messages, max_tokens: 50 }],
    completions: ['/v1/completions', { prompt: 'Hello', max_tokens: 50 }],
  };

/** One request. @returns the answer, its row in the ledger, and its receipt by id */
async function send(
  route: keyof typeof bodies,
  model: string,
  more: object,
  headers: Record<string, string> = {},
) {
  const [path, body] = bodies[route];
  const response = await ask(url, path, { customer, body: { model, ...body, ...more }, headers });
  const text = await response.text();
  const id = response.headers.get('x-svc-request-id') ?? '';
  if (response.status === 400)
    return { status: 400, text, headers: response.headers, row: undefined, receipt: undefined };
  const row = await witness.row(id);
  const receipt = (await (
    await fetch(`${url}/v1/receipts/${id}`, { headers: { authorization: `Bearer ${customer.secret}` } })
  ).json()) as Record<string, unknown>;
  return { status: response.status, text, headers: response.headers, row, receipt };
}
const sent = () => provider.requests.at(-1)?.body ?? {};
const raw = (body: object) => provider.script([{ raw: { body: JSON.stringify(body) } }]);
const rawStream = (events: readonly object[], { named = true } = {}) =>
  provider.script([
    {
      raw: {
        contentType: 'text/event-stream',
        body: `${events
          .map((event) =>
            named && 'type' in event
              ? `event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`
              : `data: ${JSON.stringify(event)}\n\n`,
          )
          .join('')}${named ? '' : 'data: [DONE]\n\n'}`,
      },
    },
  ]);

const chatBody = (more: object, usage: object = {}) => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Yes.', refusal: null },
      finish_reason: 'stop',
      logprobs: null,
    },
  ],
  usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, ...usage },
  ...more,
});
const responseBody = (more: object = {}) => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'm',
  output: [
    {
      type: 'message',
      id: 'm1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Yes.', annotations: [] }],
    },
  ],
  usage: { input_tokens: 100, output_tokens: 10, total_tokens: 110 },
  ...more,
});
const messageBody = (usage: object) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'Yes.' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 100, output_tokens: 10, ...usage },
});

describe('a service tier', () => {
  const flex = 100n * 1000n + 10n * 4000n;
  const usual = 100n * 2000n + 10n * 8000n;

  it('is passed on where it has a price, and charged as the provider reports it', async () => {
    raw(chatBody({ service_tier: 'flex' }));
    const answer = await send('chat', 'chat', { service_tier: 'flex' });
    expect(sent()).toMatchObject({ service_tier: 'flex' });
    expect(answer.row).toMatchObject({ cost: flex, charged: flex });
    expect(answer.headers.get('x-svc-service-tier')).toBe('flex');
    expect(answer.receipt).toMatchObject({ service_tier: 'flex', cost_nanousd: Number(flex) });
    // A provider without room in the tier takes the default one.
    raw(chatBody({ service_tier: 'default' }));
    const ordinary = await send('chat', 'chat', { service_tier: 'priority' });
    expect(sent()).toMatchObject({ service_tier: 'priority' });
    expect(ordinary.row?.cost).toBe(usual);
    expect(ordinary.row?.amount).toBeGreaterThan(50n * 16_000n);
    expect(ordinary.receipt).toMatchObject({ service_tier: 'default' });
    expect(ordinary.headers.has('x-svc-service-tier')).toBe(false);
  });

  it('is named in the request where the caller leaves it to the provider, and removed where it has no price', async () => {
    for (const tier of [undefined, 'auto', 'scale']) {
      await send('chat', 'chat', { service_tier: tier });
      expect(sent(), String(tier)).toMatchObject({ service_tier: 'default' });
    }
    await send('responses', 'responses', {});
    expect(sent()).toMatchObject({ service_tier: 'default' });
    await send('completions', 'chat', { service_tier: 'flex' });
    expect(sent()).toMatchObject({ service_tier: 'flex' });
    await send('chat', 'plain-chat', { service_tier: 'flex' });
    expect(sent()).not.toHaveProperty('service_tier');
  });

  it('is read from streams: of chat, responses and messages', async () => {
    const chunk = (more: object) => ({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      ...more,
    });
    rawStream(
      [
        chunk({
          service_tier: 'flex',
          choices: [{ index: 0, delta: { role: 'assistant', content: 'Yes.' }, finish_reason: null }],
        }),
        chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
        chunk({ choices: [], usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } }),
      ],
      { named: false },
    );
    const chat = await send(
      'chat',
      'chat',
      { stream: true, service_tier: 'flex' },
      { 'x-svc-stream-receipt': 'comment' },
    );
    expect(chat.row?.cost).toBe(flex);
    expect(chat.text).toMatch(/: receipt \{.*"service_tier":"flex"\}/);

    rawStream([
      { type: 'response.created', response: responseBody({ status: 'in_progress', output: [] }) },
      { type: 'response.completed', response: responseBody({ service_tier: 'flex' }) },
    ]);
    expect((await send('responses', 'responses', { stream: true, service_tier: 'flex' })).row?.cost).toBe(
      flex,
    );

    const { content, stop_reason, usage, ...start } = messageBody({ service_tier: 'priority' });
    rawStream([
      {
        type: 'message_start',
        message: { ...start, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: content[0] && { type: 'text_delta', text: 'Yes.' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 10 } },
      { type: 'message_stop' },
    ]);
    const message = await send('messages', 'claude', { stream: true });
    expect(message.row?.cost).toBe(100n * 4000n + 10n * 16_000n);
    expect(message.text).toContain('"service_tier":"priority"');
  });
});

describe('audio', () => {
  const audio = [
    { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] },
  ];

  it('is charged at its own prices, in lines of the receipt', async () => {
    raw(
      chatBody(
        {},
        {
          prompt_tokens_details: { audio_tokens: 80 },
          completion_tokens_details: { audio_tokens: 6 },
        },
      ),
    );
    const { row, receipt } = await send('chat', 'chat', {
      messages: audio,
      modalities: ['text', 'audio'],
      audio: { voice: 'alloy', format: 'wav' },
    });
    const cost = 20n * 2000n + 80n * 32_000n + 4n * 8000n + 6n * 64_000n;
    // The file counts as the context window, all of it audio; so does every token of the answer.
    expect(row).toMatchObject({
      cost,
      charged: cost,
      overrun: 0n,
      amount: 10_000n * 32_000n + 50n * 64_000n,
    });
    expect(receipt?.['lines']).toEqual([
      { item: 'audio_input', quantity: 80, cost_nanousd: 80 * 32_000 },
      { item: 'audio_output', quantity: 6, cost_nanousd: 6 * 64_000 },
    ]);
  });

  it.each([
    ['plain-chat', { messages: audio }, 'messages.0.content.0'],
    ['plain-chat', { modalities: ['text', 'audio'] }, 'modalities'],
    ['plain-chat', { audio: { voice: 'alloy', format: 'wav' } }, 'audio'],
    ['chat', { audio: { voice: { id: 'voice_1' }, format: 'wav' } }, 'audio'],
    ['chat', { modalities: ['text', 'image'] }, 'modalities'],
    ['chat', { messages: [{ role: 'assistant', audio: { id: 'audio_1' } }] }, 'messages.0.audio'],
  ] as const)(
    'is refused where it has no price, and where it belongs to the account: %s %j',
    async (model, more, param) => {
      const before = provider.requests.length;
      const { status, text } = await send('chat', model, more);
      expect([status, provider.requests.length]).toEqual([400, before]);
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'unsupported_parameter', param } });
    },
  );
});

describe('tools that the provider runs', () => {
  it('are limited, held and charged by the call: responses', async () => {
    const tools = [{ type: 'web_search' }, { type: 'code_interpreter', container: { type: 'auto' } }];
    const output = [
      { type: 'web_search_call', id: 'w1', status: 'completed', action: { type: 'search', query: 'x' } },
      {
        type: 'web_search_call',
        id: 'w2',
        status: 'completed',
        action: { type: 'open_page', url: 'https://x.example' },
      },
      { type: 'code_interpreter_call', id: 'c1', container_id: 'one', status: 'completed' },
    ];
    const body = responseBody({ output: [...output, ...responseBody().output] });
    raw(body);
    const { row, receipt, headers } = await send('responses', 'responses', { tools });
    expect(sent()).toMatchObject({ max_tool_calls: 3, tools });
    const calls = 10_000_000n + 30_000_000n;
    const cost = 100n * 2000n + 10n * 8000n + calls;
    expect(row).toMatchObject({ cost, charged: cost, cost_tools: calls, overrun: 0n });
    expect(row?.amount).toBe(4n * 10_000n * 2000n + 50n * 8000n + 3n * 30_000_000n);
    expect(headers.get('x-svc-cost-components-nanousd')).toBe(
      `fresh=200000,cache_write=0,cache_read=0,output=80000,tools=${calls}`,
    );
    expect(receipt).toMatchObject({
      components: { tools: Number(calls) },
      lines: [
        { item: 'web_search', quantity: 1, cost_nanousd: 10_000_000 },
        { item: 'code_interpreter', quantity: 1, cost_nanousd: 30_000_000 },
      ],
    });
    // The caller's own limit is the one that is held and sent.
    raw(body);
    const own = await send('responses', 'responses', { tools, max_tool_calls: 1 });
    expect(sent()).toMatchObject({ max_tool_calls: 1 });
    expect(own.row?.amount).toBe(2n * 10_000n * 2000n + 50n * 8000n + 30_000_000n);
    // As a stream.
    rawStream([
      { type: 'response.created', response: responseBody({ status: 'in_progress', output: [] }) },
      ...output.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
      { type: 'response.completed', response: body },
    ]);
    const stream = await send(
      'responses',
      'responses',
      { tools, stream: true },
      { 'x-svc-stream-receipt': 'comment' },
    );
    expect(stream.row).toMatchObject({ cost, cost_tools: calls });
    expect(stream.text).toContain(
      `"tools":${calls}},"lines":[{"item":"web_search","quantity":1,"cost_nanousd":10000000}`,
    );
    // The usage report has them.
    const usage = (await (
      await fetch(`${url}/v1/usage?by=model`, { headers: { authorization: `Bearer ${customer.secret}` } })
    ).json()) as { data: { model: string; spend_nanodollars: number }[] };
    const spent = usage.data.find(({ model }) => model === 'responses')?.spend_nanodollars ?? 0;
    const rows = await witness.rows();
    const charged = rows.filter((one) => one.effective_model === 'responses').map((one) => one.charged);
    expect(BigInt(spent)).toBe(charged.reduce((sum, amount) => sum + amount));
  });

  it('are limited, held and charged by the call: messages', async () => {
    const search = { type: 'web_search_20250305', name: 'web_search' };
    raw(messageBody({ server_tool_use: { web_search_requests: 2 } }));
    const { row } = await send('messages', 'claude', { tools: [search], service_tier: 'standard_only' });
    expect(sent()).toMatchObject({ tools: [{ ...search, max_uses: 3 }] });
    expect(row).toMatchObject({ cost_tools: 20_000_000n, overrun: 0n });
    const own = await send('messages', 'claude', {
      tools: [{ ...search, max_uses: 1 }],
      service_tier: 'standard_only',
    });
    expect(sent()).toMatchObject({ tools: [{ ...search, max_uses: 1 }] });
    // More calls than the request allows are not charged.
    expect(own.row).toMatchObject({ cost_tools: 10_000_000n });
    const bad = await send('messages', 'claude', { tools: [{ ...search, max_uses: 0 }] });
    expect(bad.text).toContain('tools.0.max_uses');
  });

  it('are held and charged by the call: searches on the chat wire, and those of Google', async () => {
    const { row } = await send('chat', 'chat', { web_search_options: {} });
    expect(sent()).toMatchObject({ web_search_options: {} });
    expect(row).toMatchObject({ cost_tools: 10_000_000n });
    raw({
      candidates: [
        {
          content: { parts: [{ text: 'Yes.' }] },
          finishReason: 'STOP',
          groundingMetadata: { webSearchQueries: ['a', 'b'] },
        },
      ],
      usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10 },
    });
    const grounded = await send('chat', 'gemini', { web_search_options: {} });
    expect(sent()).toMatchObject({ tools: [{ googleSearch: {} }] });
    expect(grounded.row).toMatchObject({ cost_tools: 20_000_000n, overrun: 0n });
  });

  it.each<[keyof typeof bodies, `plain-${Name}` | Name, object, string]>([
    ['responses', 'plain-responses', { tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    ['responses', 'responses', { tools: [{ type: 'web_search_preview' }] }, 'tools.0.type'],
    ['responses', 'responses', { tools: [{ type: 'image_generation' }] }, 'tools.0.type'],
    [
      'responses',
      'responses',
      { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] },
      'tools.0.container',
    ],
    [
      'responses',
      'responses',
      { tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: ['f'] } }] },
      'tools.0.container.file_ids',
    ],
    [
      'responses',
      'responses',
      { tools: [{ type: 'code_interpreter', container: { type: 'auto', memory_limit: '4g' } }] },
      'tools.0.container.memory_limit',
    ],
    // Another wire than the provider's has no form for their items.
    ['responses', 'chat', { tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    [
      'messages',
      'plain-claude',
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      'tools.0.type',
    ],
    ['messages', 'claude', { tools: [{ type: 'web_search_20260209', name: 'web_search' }] }, 'tools.0.type'],
    ['chat', 'plain-chat', { web_search_options: {} }, 'web_search_options'],
    ['chat', 'plain-gemini', { web_search_options: {} }, 'web_search_options'],
    ['chat', 'claude', { web_search_options: {} }, 'web_search_options'],
  ])('are refused without a price: %s %s %j', async (route, model, more, param) => {
    const before = provider.requests.length;
    const { status, text } = await send(route, model, more);
    expect([status, provider.requests.length]).toEqual([400, before]);
    const { error } = JSON.parse(text) as { error: { param?: string; message: string } };
    expect(`${error.param} ${error.message}`).toContain(param);
  });
});

it('the catalog lists every price', async () => {
  const { data } = (await (await fetch(`${url}/v1/catalog`)).json()) as {
    data: { id: string; pricing: object }[];
  };
  expect(data.find(({ id }) => id === 'chat')?.pricing).toMatchObject({
    in_usd_per_mtok: '2',
    in_audio_usd_per_mtok: '32',
    tiers: {
      flex: { in_usd_per_mtok: '1' },
      priority: { out_usd_per_mtok: '16', in_audio_usd_per_mtok: '32' },
    },
    hosted_tools: { web_search_usd_per_call: '0.01', file_search_usd_per_call: '0.0025', max_calls: 3 },
  });
});
