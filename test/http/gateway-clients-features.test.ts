import type OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Clients, clientsOf } from '../support/gateway/clients.ts';
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
const openai = () => clients.openai['openai 7'];
const sent = () => JSON.stringify(world.provider.requests.at(-1)?.body);
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const pdf = Buffer.from('%PDF-1.4 small').toString('base64');
const url = 'https://example.com/cat.png';
const answer = { say: { text: 'A cat.' } };

describe.each(models)('images and files at %s', (model) => {
  it('on the chat wire', async () => {
    world.provider.script([answer]);
    const content: OpenAI.ChatCompletionContentPart[] = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url, detail: 'low' } },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
      { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` } },
    ];
    const { choices } = await openai().chat.completions.create({
      model,
      messages: [{ role: 'user', content }],
    });
    expect(choices[0]?.message.content).toBe('A cat.');
    for (const expectedPart of ['What is this?', url, png, pdf]) expect(sent()).toContain(expectedPart);
  });

  it('on the responses wire', async () => {
    world.provider.script([answer]);
    const { output_text } = await openai().responses.create({
      model,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is this?' },
            { type: 'input_image', image_url: url, detail: 'low' },
            { type: 'input_image', image_url: `data:image/png;base64,${png}`, detail: 'auto' },
            { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` },
          ],
        },
      ],
    });
    expect(output_text).toBe('A cat.');
    for (const expectedPart of ['What is this?', url, png, pdf]) expect(sent()).toContain(expectedPart);
  });
});

const Weather = z.object({ city: z.string(), degrees: z.number(), wind: z.enum(['none', 'some']) });
const rome = { city: 'Rome', degrees: 31.5, wind: 'none' as const };

describe.each(models)('structured output of %s', (model) => {
  it('parsed by the helpers of the chat wire', async () => {
    world.provider.script([{ say: { text: JSON.stringify(rome) } }]);
    const ask = {
      model,
      messages: [{ role: 'user' as const, content: 'Rome?' }],
      response_format: zodResponseFormat(Weather, 'weather'),
    };
    const whole = await openai().chat.completions.parse(ask);
    expect(whole.choices[0]?.message.parsed).toEqual(rome);
    expect(sent()).toContain('"degrees"');
    const final = await openai().chat.completions.stream(ask).finalChatCompletion();
    expect(final.choices[0]?.message.parsed).toEqual(rome);
    const old = await clients.openai['openai 6'].chat.completions.parse(ask);
    expect(old.choices[0]?.message.parsed).toEqual(rome);
  });

  it('parsed by the helpers of the responses wire', async () => {
    world.provider.script([{ say: { text: JSON.stringify(rome) } }]);
    const ask = { model, input: 'Rome?', text: { format: zodTextFormat(Weather, 'weather') } };
    expect((await openai().responses.parse(ask)).output_parsed).toEqual(rome);
    expect(sent()).toContain('"degrees"');
    expect((await openai().responses.stream(ask).finalResponse()).output_parsed).toEqual(rome);
    expect((await clients.openai['openai 6'].responses.parse(ask)).output_parsed).toEqual(rome);
  });

  it('refused', async () => {
    const refuses = model !== 'claude' && model !== 'gemini';
    world.provider.script([{ say: refuses ? { refusal: 'No.' } : { finish: 'content_filter' } }]);
    const ask = {
      model,
      messages: [{ role: 'user' as const, content: 'Rome?' }],
      response_format: zodResponseFormat(Weather, 'weather'),
    };
    if (!refuses) {
      await expect(openai().chat.completions.parse(ask)).rejects.toThrow(/content filter/i);
      return;
    }
    const { choices } = await openai().chat.completions.parse(ask);
    expect(choices[0]?.message).toMatchObject({ refusal: 'No.', parsed: null });
    const final = await openai().chat.completions.stream(ask).finalChatCompletion();
    expect(final.choices[0]?.message).toMatchObject({ refusal: 'No.' });
  });
});

describe('breakpoints of the cache on the chat wire', () => {
  const marked = { cache_control: { type: 'ephemeral' } } as object;
  const usage = { input: 100, cacheRead: 40, cacheWrite: 20, cacheWrite1h: 10, output: 5 };
  const ask = {
    model: 'claude',
    max_tokens: 100,
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } }, ...marked }],
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'Long.', ...marked }] },
      {
        role: 'user',
        content: [{ type: 'text', text: 'Hi.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      },
    ],
  } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;

  it('reach Anthropic; what was written and read is counted and billed', async () => {
    world.provider.script([{ say: { text: 'Hi.', usage } }]);
    const { data, response } = await openai().chat.completions.create(ask).withResponse();
    const body = world.provider.requests.at(-1)?.body;
    expect(body).toMatchObject({
      system: [{ type: 'text', text: 'Long.', cache_control: { type: 'ephemeral' } }],
      tools: [{ name: 'f', cache_control: { type: 'ephemeral' } }],
      messages: [{ content: [{ text: 'Hi.', cache_control: { type: 'ephemeral', ttl: '1h' } }] }],
    });
    const counted = {
      prompt_tokens: 100,
      completion_tokens: 5,
      total_tokens: 105,
      prompt_tokens_details: { cached_tokens: 40, cache_write_tokens: 30 },
    };
    expect(data.usage).toMatchObject(counted);
    expect(response.headers.get('x-svc-cost-nanousd')).toBe(
      String(nanoOf({ fresh: 30, cacheWrite: 20, cacheWrite1h: 10, cacheRead: 40, output: 5 })),
    );
    const stream = openai().chat.completions.stream({
      ...(ask as object),
      stream_options: { include_usage: true },
    } as never);
    expect((await stream.finalChatCompletion()).usage).toMatchObject(counted);
  });
});

describe('what passes where both sides speak the same', () => {
  it('several answers', async () => {
    const choice = (index: number) => ({
      index,
      message: { role: 'assistant', content: `Answer ${index}`, refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    });
    const body = {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [choice(0), choice(1)],
    };
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
    world.provider.script([{ raw: { body: JSON.stringify({ ...body, usage }) } }]);
    const ask = { model: 'chat', n: 2, messages: [{ role: 'user' as const, content: 'Hi' }] };
    const { choices } = await openai().chat.completions.create(ask);
    expect(choices.map(({ message }) => message.content)).toEqual(['Answer 0', 'Answer 1']);
    const chunk = (index: number, delta: object, finish: string | null = null) =>
      `data: ${JSON.stringify({
        id: 'x',
        object: 'chat.completion.chunk',
        created: 1,
        model: 'm',
        choices: [{ index, delta, logprobs: null, finish_reason: finish }],
      })}\n\n`;
    const stream = [
      chunk(0, { role: 'assistant', content: 'A' }),
      chunk(1, { role: 'assistant', content: 'B' }),
      chunk(1, { content: 'b' }),
      chunk(0, { content: 'a' }),
      chunk(1, {}, 'stop'),
      chunk(0, {}, 'length'),
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage })}\n\n`,
      'data: [DONE]\n\n',
    ];
    world.provider.script([{ raw: { body: stream.join('') }, split: 3 }]);
    const final = await openai().chat.completions.stream(ask).finalChatCompletion();
    expect(final.choices.map(({ message, finish_reason }) => [message.content, finish_reason])).toEqual([
      ['Aa', 'length'],
      ['Bb', 'stop'],
    ]);
  });

  it.each(['responses', 'claude', 'gemini'] as const)('several answers, which %s refuses', async (model) => {
    const ask = { model, n: 2, messages: [{ role: 'user' as const, content: 'Hi' }] };
    await expect(openai().chat.completions.create(ask)).rejects.toMatchObject({
      status: 400,
      code: 'unsupported_parameter',
      param: 'n',
    });
  });

  it('log probabilities', async () => {
    const token = { token: 'Hi', logprob: -0.25, bytes: [72, 105], top_logprobs: [] };
    const logprobs = { content: [token], refusal: null };
    const choice = {
      index: 0,
      message: { role: 'assistant', content: 'Hi', refusal: null },
      logprobs,
      finish_reason: 'stop',
    };
    const body = { id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [choice] };
    world.provider.script([{ raw: { body: JSON.stringify(body) } }]);
    const { choices } = await openai().chat.completions.create({
      model: 'chat',
      messages: [{ role: 'user', content: 'Hi' }],
      logprobs: true,
      top_logprobs: 0,
    });
    expect(choices[0]?.logprobs).toEqual(logprobs);
  });

  it.each(['openai 7', 'openai 6'] as const)('text completions with %s', async (version) => {
    const usage = { input: 5, output: 9 };
    world.provider.script([{ say: { text: 'once upon a time', usage, piece: 4 } }]);
    const client = clients.openai[version];
    const ask = { model: 'copy', prompt: 'Tell: ', max_tokens: 9 };
    const { data, response } = await client.completions.create(ask).withResponse();
    expect(data.choices[0]).toMatchObject({ text: 'once upon a time', finish_reason: 'stop' });
    expect(response.headers.get('x-svc-cost-nanousd')).toBe(String(nanoOf({ fresh: 5, output: 9 })));
    let text = '';
    for await (const chunk of await client.completions.create({ ...ask, stream: true }))
      text += chunk.choices[0]?.text ?? '';
    expect(text).toBe('once upon a time');
    await expect(client.completions.create({ ...ask, model: 'gemini' })).rejects.toMatchObject({
      status: 400,
    });
  });

  // These clients request base64 by default.
  it.each(['openai 7', 'openai 6'] as const)('embeddings with %s', async (version) => {
    const vectors = [
      [0.5, -0.25, 1],
      [1.5, 3, -2],
    ];
    world.provider.script([{ say: { vectors, usage: { input: 7 } } }]);
    const client = clients.openai[version];
    for (const model of ['copy', 'gemini']) {
      const ask = { model, input: ['one', 'two'] };
      const { data, response } = await client.embeddings.create(ask).withResponse();
      expect(data.data.map(({ embedding }) => [...embedding])).toEqual(vectors);
      expect(data.usage.prompt_tokens).toBe(7);
      expect(response.headers.get('x-svc-cost-nanousd')).toBe(String(nanoOf({ fresh: 7 })));
      const floats = await client.embeddings.create({ ...ask, encoding_format: 'float' });
      expect(floats.data.map(({ embedding }) => embedding)).toEqual(vectors);
    }
  });
});
