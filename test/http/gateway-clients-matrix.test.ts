import type OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Clients, clientsOf, weather } from '../support/gateway/clients.ts';
import { type Customer, gatewayWorld, nanoOf } from '../support/gateway/world.ts';

let world: Awaited<ReturnType<typeof gatewayWorld>>;
let customer: Customer;
let clients: Clients;

beforeAll(async () => {
  world = await gatewayWorld();
  customer = await world.customer();
  clients = clientsOf(world.url, customer);
});
afterEach(() => clients.verify());
afterAll(async () => {
  const wrong = [...(await world.witness.faults()), ...world.faults];
  await world.close();
  expect(wrong).toEqual([]);
});

const models = ['chat', 'copy', 'responses', 'claude', 'gemini', 'host'] as const;
const versions = ['openai 7', 'openai 6'] as const;
const matrix = versions.flatMap((version) => models.map((model) => [version, model] as const));

/** Whole characters of up to four bytes, in pieces. */
const text = 'Grüße 👋🏽 aus 日本, "quoted"\n\tand \\ done.';
const usage = { input: 31, cacheRead: 8, output: 17, reasoning: 5 };
const cities = ['Oslo', 'São Paulo', '東京'];
const calls = cities.map((city, index) => ({ id: `call_${index}`, name: 'weather', arguments: { city } }));
const reply = { say: { text, usage, piece: 3 }, split: 7 };
const calling = { say: { text: 'Looking.', calls, usage, piece: 4 }, split: 11 };
const cost = nanoOf({ fresh: 23, cacheRead: 8, output: 17 });

const hi = [{ role: 'user' as const, content: 'Hi.' }];
const parsed = (json: string): unknown => JSON.parse(json);
const schema = weather().function.parameters;
const tool = { type: 'function' as const, name: 'weather', parameters: schema, strict: true };

/** What was paid for an answer, as the books have it. */
const paid = async ({ headers }: Response): Promise<bigint> =>
  (await world.witness.row(headers.get('x-svc-request-id') ?? '')).cost;

describe.each(matrix)('chat with %s at %s', (version, model) => {
  const openai = () => clients.openai[version];
  const ask = { model, messages: hi, max_tokens: 500 };

  it('text, whole and in pieces', async () => {
    world.provider.script([reply]);
    const whole = await openai().chat.completions.create(ask);
    expect(whole.choices[0]).toMatchObject({ message: { content: text }, finish_reason: 'stop' });
    expect(whole.usage).toMatchObject({
      prompt_tokens: 31,
      completion_tokens: 17,
      total_tokens: 48,
      prompt_tokens_details: { cached_tokens: 8 },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of await openai().chat.completions.create({ ...ask, stream: true }))
      chunks.push(chunk);
    expect(chunks.map(({ choices: [choice] }) => choice?.delta.content ?? '').join('')).toBe(text);
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant');
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('stop');
    expect(
      chunks.some((chunk) => chunk.usage),
      'usage was not asked for',
    ).toBe(false);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    const final = await openai()
      .chat.completions.stream({ ...ask, stream_options: { include_usage: true } })
      .finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe(text);
    expect(final.usage).toEqual(whole.usage);
  });

  it('three calls at once beside text, and their results', async () => {
    world.provider.script([calling, calling, reply]);
    const asking = { ...ask, tools: [weather()], tool_choice: 'auto' as const };
    const whole = await openai().chat.completions.create(asking);
    const streamed = await openai().chat.completions.stream(asking).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      expect(choices[0]).toMatchObject({ message: { content: 'Looking.' }, finish_reason: 'tool_calls' });
      const made: readonly OpenAI.ChatCompletionMessageToolCall[] = choices[0]?.message.tool_calls ?? [];
      expect(
        made.flatMap((call) => (call.type === 'function' ? [parsed(call.function.arguments)] : [])),
      ).toEqual(cities.map((city) => ({ city })));
      expect(new Set(made.map(({ id }) => id)).size).toBe(3);
    }
    const message = streamed.choices[0]?.message;
    const results = (message?.tool_calls ?? []).map(({ id }, index) => ({
      role: 'tool' as const,
      tool_call_id: id,
      content: `${index} degrees`,
    }));
    const messages = [...hi, message as OpenAI.ChatCompletionMessageParam, ...results];
    const last = await openai().chat.completions.create({ ...asking, messages });
    expect(last.choices[0]?.message.content).toBe(text);
    expect(receivedResults(world.provider.requests.at(-1)?.body)).toEqual([
      '0 degrees',
      '1 degrees',
      '2 degrees',
    ]);
  });

  it.each([
    ['length', 'length'],
    ['content_filter', 'content_filter'],
  ] as const)('an end of %s', async (finish, expected) => {
    world.provider.script([{ say: { text, finish } }]);
    const whole = await openai().chat.completions.create(ask);
    expect(whole.choices[0]?.finish_reason).toBe(expected);
    const reasons: unknown[] = [];
    for await (const { choices } of await openai().chat.completions.create({ ...ask, stream: true }))
      if (choices[0]?.finish_reason) reasons.push(choices[0].finish_reason);
    expect(reasons).toEqual([expected]);
  });

  it('is paid once, and the same in pieces', async () => {
    world.provider.script([reply]);
    const whole = await openai().chat.completions.create(ask).withResponse();
    expect(whole.response.headers.get('x-svc-cost-nanousd')).toBe(String(cost));
    expect(await paid(whole.response)).toBe(cost);
    const streamed = await openai()
      .chat.completions.create({ ...ask, stream: true })
      .withResponse();
    for await (const _ of streamed.data);
    expect(await paid(streamed.response)).toBe(cost);
  });
});

describe.each(matrix)('responses with %s at %s', (version, model) => {
  const openai = () => clients.openai[version];
  const ask = { model, input: 'Hi.', max_output_tokens: 500, store: false };

  it('text, whole and in pieces', async () => {
    world.provider.script([reply]);
    const whole = await openai().responses.create(ask);
    expect(whole.output_text).toBe(text);
    expect(whole.status).toBe('completed');
    expect(whole.usage).toMatchObject({
      input_tokens: 31,
      output_tokens: 17,
      total_tokens: 48,
      input_tokens_details: { cached_tokens: 8 },
    });
    const numbers: number[] = [];
    let streamedText = '';
    for await (const event of await openai().responses.create({ ...ask, stream: true })) {
      numbers.push(event.sequence_number);
      if (event.type === 'response.output_text.delta') streamedText += event.delta;
    }
    expect(streamedText).toBe(text);
    expect(numbers).toEqual(numbers.map((_, index) => index));
    const final = await openai().responses.stream(ask).finalResponse();
    expect(final.output_text).toBe(text);
    expect(final.usage).toEqual(whole.usage);
  });

  it('three calls at once beside text, and their results', async () => {
    world.provider.script([calling, calling, reply]);
    const asking = { ...ask, tools: [tool] };
    const whole = await openai().responses.create(asking);
    const streamed = await openai().responses.stream(asking).finalResponse();
    for (const { output, output_text } of [whole, streamed]) {
      expect(output_text).toBe('Looking.');
      const items: readonly OpenAI.Responses.ResponseOutputItem[] = output;
      expect(
        items.flatMap((item) => (item.type === 'function_call' ? [parsed(item.arguments)] : [])),
      ).toEqual(cities.map((city) => ({ city })));
    }
    const output: readonly OpenAI.Responses.ResponseOutputItem[] = streamed.output;
    const results = output
      .filter((item) => item.type === 'function_call')
      .map(({ call_id }, index) => ({
        type: 'function_call_output' as const,
        call_id,
        output: `${index} degrees`,
      }));
    const last = await openai().responses.create({
      ...asking,
      input: [
        { role: 'user', content: 'Hi.' },
        ...(output as OpenAI.Responses.ResponseInputItem[]),
        ...results,
      ],
    });
    expect(last.output_text).toBe(text);
    expect(receivedResults(world.provider.requests.at(-1)?.body)).toEqual([
      '0 degrees',
      '1 degrees',
      '2 degrees',
    ]);
  });

  it.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const)('an end of %s', async (finish, reason) => {
    world.provider.script([{ say: { text, finish } }]);
    const whole = await openai().responses.create(ask);
    expect([whole.status, whole.incomplete_details?.reason]).toEqual(['incomplete', reason]);
    const final = await openai().responses.stream(ask).finalResponse();
    expect([final.status, final.incomplete_details?.reason]).toEqual(['incomplete', reason]);
  });

  it('is paid once, and the same in pieces', async () => {
    world.provider.script([reply]);
    expect(await paid((await openai().responses.create(ask).withResponse()).response)).toBe(cost);
    const streamed = await openai()
      .responses.create({ ...ask, stream: true })
      .withResponse();
    for await (const _ of streamed.data);
    expect(await paid(streamed.response)).toBe(cost);
  });
});

describe.each(['anthropic 1', 'anthropic 0'] as const)('messages with %s', (version) => {
  const anthropic = () => clients.anthropic[version];
  const ask = { model: 'claude', messages: hi, max_tokens: 500 };
  const claudeTool = { name: 'weather', input_schema: schema as unknown as { type: 'object' } };

  it('text, whole and in pieces', async () => {
    world.provider.script([reply]);
    const whole = await anthropic().messages.create(ask);
    expect(whole.content).toEqual([expect.objectContaining({ type: 'text', text })]);
    expect(whole.usage).toMatchObject({ input_tokens: 23, cache_read_input_tokens: 8, output_tokens: 17 });
    const final = await anthropic().messages.stream(ask).finalMessage();
    expect(final.content).toEqual([expect.objectContaining({ type: 'text', text })]);
    expect(final.usage).toMatchObject({ input_tokens: 23, cache_read_input_tokens: 8, output_tokens: 17 });
    expect(final.stop_reason).toBe('end_turn');
  });

  it('three calls at once beside text, and their results', async () => {
    world.provider.script([calling, calling, reply]);
    const asking = { ...ask, tools: [claudeTool] };
    const whole = await anthropic().messages.create(asking);
    const final = await anthropic().messages.stream(asking).finalMessage();
    for (const { content, stop_reason } of [whole, final]) {
      expect(stop_reason).toBe('tool_use');
      expect(content.flatMap((block) => (block.type === 'tool_use' ? [block.input] : []))).toEqual(
        cities.map((city) => ({ city })),
      );
    }
    const results = final.content
      .filter((block) => block.type === 'tool_use')
      .map(({ id }, index) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: `${index} degrees`,
      }));
    await anthropic().messages.create({
      ...asking,
      messages: [...hi, { role: 'assistant', content: final.content }, { role: 'user', content: results }],
    });
    expect(receivedResults(world.provider.requests.at(-1)?.body)).toEqual([
      '0 degrees',
      '1 degrees',
      '2 degrees',
    ]);
  });

  it.each([
    ['length', 'max_tokens'],
    ['content_filter', 'refusal'],
  ] as const)('an end of %s', async (finish, expected) => {
    world.provider.script([{ say: { text, finish } }]);
    expect((await anthropic().messages.create(ask)).stop_reason).toBe(expected);
    expect((await anthropic().messages.stream(ask).finalMessage()).stop_reason).toBe(expected);
  });

  it('is paid once, and the same in pieces', async () => {
    world.provider.script([reply]);
    expect(await paid((await anthropic().messages.create(ask).withResponse()).response)).toBe(cost);
    const streamed = await anthropic()
      .messages.create({ ...ask, stream: true })
      .withResponse();
    for await (const _ of streamed.data);
    expect(await paid(streamed.response)).toBe(cost);
  });
});

/** The tool results that a provider received, in order, on any wire. */
function receivedResults(body: unknown): unknown[] {
  const found: unknown[] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) return value.forEach(walk);
    const node = value as Record<string, unknown>;
    if (node['role'] === 'tool' || node['type'] === 'tool_result') found.push(node['content']);
    else if (node['type'] === 'function_call_output') found.push(node['output']);
    else if (node['functionResponse'])
      found.push((node['functionResponse'] as { response: { output: unknown } }).response.output);
    else Object.values(node).forEach(walk);
  };
  walk(body);
  return found;
}
