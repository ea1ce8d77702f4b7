/** /v1/messages for models of every provider, where the operator says so: with Anthropic's own clients. */
import type Anthropic from '@anthropic-ai/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { wires } from '../support/gateway/asks.ts';
import { type Clients, clientsOf } from '../support/gateway/clients.ts';
import { fileWorld, modelTables } from '../support/gateway/file-world.ts';
import { framesOf } from '../support/gateway/frames.ts';
import { type Customer, gatewayWorld, nanoOf } from '../support/gateway/world.ts';

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
let clients: Clients;

beforeAll(async () => {
  world = await gatewayWorld({ change: (config) => ({ ...config, messagesForEveryModel: true }) });
  customer = await world.customer();
  clients = clientsOf(world.url, customer);
});
afterEach(() => clients.verify());
afterAll(async () => {
  const wrong = [...(await world.witness.faults()), ...world.faults];
  await world.close();
  expect(wrong).toEqual([]);
});

const models = ['chat', 'copy', 'responses', 'gemini', 'host'] as const;
const versions = ['anthropic 1', 'anthropic 0'] as const;
const matrix = versions.flatMap((version) => models.map((model) => [version, model] as const));

const text = 'Grüße 👋🏽 aus 日本, "quoted"\n\tand \\ done.';
const usage = { input: 31, cacheRead: 8, output: 17, reasoning: 5 };
const cost = nanoOf({ fresh: 23, cacheRead: 8, output: 17 });
const written = {
  input_tokens: 23,
  cache_read_input_tokens: 8,
  cache_creation_input_tokens: 0,
  output_tokens: 17,
};
const cities = ['Oslo', '東京'];
const calls = cities.map((city, index) => ({ id: `call_${index}`, name: 'weather', arguments: { city } }));
const tool: Anthropic.Tool = {
  name: 'weather',
  description: 'The weather of a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const messages: Anthropic.MessageParam[] = [{ role: 'user', content: 'Hi.' }];

describe.each(matrix)('messages with %s of %s', (version, model) => {
  const api = () => clients.anthropic[version].messages;
  const ask = { model, messages, max_tokens: 500 };

  it('text, whole and streamed, with usage and the same cost in receipt and ledger', async () => {
    world.provider.script([{ say: { text, usage, piece: 3 }, split: 7 }]);
    const { data: whole, response } = await api().create(ask).withResponse();
    expect(whole).toMatchObject({
      type: 'message',
      role: 'assistant',
      model,
      content: [{ type: 'text', text }],
      stop_reason: 'end_turn',
      usage: written,
    });
    expect(response.headers.get('x-svc-cost-nanousd')).toBe(String(cost));
    expect(response.headers.get('x-svc-effective-model')).toBe(model);
    const row = await world.witness.row(response.headers.get('x-svc-request-id') ?? '');
    expect(row).toMatchObject({ wire: 'messages', charged: cost });
    const final = await api().stream(ask).finalMessage();
    expect(final.content).toEqual(whole.content);
    expect(final).toMatchObject({ stop_reason: 'end_turn', usage: written });
  });

  it('calls of tools, whole and streamed, and their results', async () => {
    const say = { text: 'Looking.', calls, usage, piece: 4 };
    world.provider.script([{ say, split: 11 }, { say, split: 11 }, { say: { text, usage } }]);
    const asking = { ...ask, tools: [tool], tool_choice: { type: 'auto' as const } };
    const whole = await api().create(asking);
    const streamed = await api().stream(asking).finalMessage();
    for (const { content, stop_reason: reason } of [whole, streamed]) {
      expect(reason).toBe('tool_use');
      expect(content[0]).toMatchObject({ type: 'text', text: 'Looking.' });
      expect(content.slice(1).map((block) => block.type === 'tool_use' && [block.name, block.input])).toEqual(
        cities.map((city) => ['weather', { city }]),
      );
    }
    const results = streamed.content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result', tool_use_id: block.id, content: `Rain in ${JSON.stringify(block.input)}.` }]
        : [],
    );
    const answer = await api().create({
      ...asking,
      messages: [
        ...messages,
        { role: 'assistant', content: streamed.content },
        { role: 'user', content: results },
      ],
    });
    expect(answer.content).toMatchObject([{ type: 'text', text }]);
    const sent = world.provider.requests.at(-1)?.text ?? '';
    for (const city of cities) expect(sent).toContain(city);
    expect(sent).toContain('Rain in');
  });

  it('a system prompt, an image and stop sequences reach the provider', async () => {
    world.provider.script([{ say: { text: 'A dot.', finish: 'length' } }]);
    const png =
      'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    const answer = await api().create({
      ...ask,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } },
            { type: 'text', text: 'What is this?' },
          ],
        },
      ],
      metadata: { user_id: 'u-7' },
    });
    expect(answer).toMatchObject({ stop_reason: 'max_tokens', content: [{ text: 'A dot.' }] });
    const sent = world.provider.requests.at(-1)?.text ?? '';
    for (const part of ['Be brief.', 'What is this?', png]) expect(sent).toContain(part);
    const rows = (await world.witness.rows()).filter(({ tag }) => tag === 'u-7');
    expect(rows.map(({ effective_model: id }) => id)).toContain(model);
  });

  it('thinking', async () => {
    world.provider.script([{ say: { reasoning: 'Let me see.', text, usage } }]);
    const asking = { ...ask, max_tokens: 2000, thinking: { type: 'enabled' as const, budget_tokens: 1024 } };
    const whole = await api().create(asking);
    const streamed = await api().stream(asking).finalMessage();
    for (const { content } of [whole, streamed]) {
      expect(content.map(({ type }) => type)).toEqual(['thinking', 'text']);
      expect(content[0]).toMatchObject({ type: 'thinking', thinking: 'Let me see.' });
    }
    // The client sends it back.
    const again = await api().create({
      ...asking,
      messages: [...messages, { role: 'assistant', content: streamed.content }, ...messages],
    });
    expect(again.content.at(-1)).toMatchObject({ type: 'text', text });
  });

  it('errors of the provider are errors of the wire, before and within a stream', async () => {
    world.provider.script([{ status: 400, message: 'I will not.' }]);
    await expect(api().create(ask)).rejects.toMatchObject({ status: 400, type: 'invalid_request_error' });
    world.provider.script([{ say: { text: 'word '.repeat(40) }, cutAfter: 6 }]);
    await expect(api().stream(ask).finalMessage()).rejects.toThrow(/provider|upstream/i);
  });
});

describe('a stream of another provider', () => {
  it.each(models)('has the events of the wire and the receipt: %s', async (model) => {
    world.provider.script([{ say: { text, usage } }]);
    const { path, body } = wires.messages;
    const response = await world.ask(path, { customer, body: body(model, true) });
    const events = framesOf(await response.text()).map(({ event, data }) => ({
      event,
      data: JSON.parse(data) as Record<string, unknown>,
    }));
    const names = events.map(({ event }) => event);
    expect(names[0]).toBe('message_start');
    expect(names.slice(-3)).toEqual(['message_delta', 'message_stop', 'svc_receipt']);
    expect(events.at(-1)?.data).toMatchObject({
      type: 'ping',
      svc_receipt: {
        cost_nanousd: Number(cost),
        effective_model: model,
        request_id: response.headers.get('x-svc-request-id'),
      },
    });
    for (const { event, data } of events.slice(0, -1)) expect(data['type']).toBe(event);
  });
});

describe('the setting', () => {
  it('is off by default, and reloaded', async () => {
    const file = (more: string) => (provider: Parameters<typeof modelTables>[0]) =>
      `${modelTables(provider)}${more}`;
    const at = await fileWorld(file(''));
    try {
      const { path, body } = wires.messages;
      const buyer = await at.customer();
      const send = () => at.ask(path, { customer: buyer, body: body('chat', false) });
      const refused = await send();
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ error: { code: 'wrong_model_family' } });
      const on = '[gateway]\nmessages_for_every_model = true\n';
      expect(await at.edit(file(on))).toMatchObject({ outcome: 'replaced' });
      expect((await send()).status).toBe(200);
      expect(await at.edit(file(''))).toMatchObject({ outcome: 'replaced' });
      expect((await send()).status).toBe(400);
    } finally {
      await at.close();
    }
  });
});
