/** Ollama's own client against the real host and its embedded model. */
import { Ollama, type Tool } from 'ollama';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildHost, type HostProcess, startHost } from '../support/host.ts';

let host: HostProcess;
let url: string;
let ollama: Ollama;

beforeAll(async () => {
  buildHost();
  host = startHost(['--gpu', '--port', '0']);
  url = await host.url();
  ollama = new Ollama({ host: url });
});
afterAll(async () => {
  await host.end();
});

const model = 'lathe-tiny';
const options = { temperature: 0, num_predict: 60 };
const says = (content: string) => [{ role: 'user', content }];
const weather: Tool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};

describe("ollama's client", () => {
  test('chats, buffered and streaming alike', async () => {
    const whole = await ollama.chat({ model, messages: says('What is 2 plus 3?'), options });
    expect(whole.message.content).toContain('5');
    let text = '';
    let last: { done: boolean; done_reason: string; eval_count: number } | undefined;
    for await (const line of await ollama.chat({
      model,
      messages: says('What is 2 plus 3?'),
      options,
      stream: true,
    })) {
      text += line.message.content;
      last = line;
    }
    expect(text).toBe(whole.message.content);
    expect(last).toMatchObject({ done: true, done_reason: 'stop', eval_count: whole.eval_count });
    for (const value of [
      whole.total_duration,
      whole.load_duration,
      whole.prompt_eval_duration,
      whole.eval_duration,
    ])
      expect(Number.isSafeInteger(value)).toBe(true);
    expect(whole.total_duration).toBeGreaterThanOrEqual(whole.prompt_eval_duration + whole.eval_duration);
  });

  test('a conversation continues from a context as it does from its messages', async () => {
    const first = await ollama.generate({ model, prompt: 'What is 2 plus 3?', options });
    const second = await ollama.generate({
      model,
      prompt: 'What is 4 plus 4?',
      context: first.context,
      options,
    });
    const whole = await ollama.chat({
      model,
      messages: [
        ...says('What is 2 plus 3?'),
        { role: 'assistant', content: first.response ?? '' },
        ...says('What is 4 plus 4?'),
      ],
      options,
    });
    expect(second.response).toBe(whole.message.content);
    expect(second.prompt_eval_count).toBe(whole.prompt_eval_count);
    expect(second.context.slice(0, first.context.length)).toEqual(first.context);
  });

  test('fills in the middle', async () => {
    const answer = await ollama.generate({
      model,
      prompt: 'def add(a, b):\n    return a',
      suffix: '\n',
      options,
    });
    expect(answer.eval_count).toBeGreaterThan(0);
    expect('context' in answer).toBe(false);
  });

  test('answers in JSON, and by a schema', async () => {
    const free = await ollama.chat({ model, messages: says('Give a JSON object.'), format: 'json', options });
    expect(typeof JSON.parse(free.message.content)).toBe('object');
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 12 },
        age: { type: 'integer', minimum: 0, maximum: 99 },
      },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    for (const generate of [true, false]) {
      const text = generate
        ? ((await ollama.generate({ model, prompt: 'Who?', format: schema, options })).response ?? '')
        : (await ollama.chat({ model, messages: says('Who?'), format: schema, options })).message.content;
      expect(JSON.parse(text)).toEqual({ name: expect.any(String), age: expect.any(Number) });
    }
  });

  test('calls a tool, and answers with its result', async () => {
    const messages = says('What is the weather in Oslo?');
    const call = await ollama.chat({ model, messages, tools: [weather], options });
    const [made] = call.message.tool_calls ?? [];
    expect(made?.function).toMatchObject({
      name: 'get_weather',
      arguments: { city: expect.stringMatching(/oslo/i) },
    });
    expect(call.done_reason).toBe('stop');
    const calls: unknown[] = [];
    for await (const { message } of await ollama.chat({
      model,
      messages,
      tools: [weather],
      options,
      stream: true,
    }))
      calls.push(...(message.tool_calls ?? []).map(({ function: of }) => of));
    expect(calls).toEqual([made?.function]);
    const answer = await ollama.chat({
      model,
      messages: [
        ...messages,
        call.message,
        { role: 'tool', tool_name: 'get_weather', content: 'rain, 7 degrees' },
      ],
      tools: [weather],
      options,
    });
    expect(answer.message.content).not.toBe('');
  });

  test('reports log probabilities of every token', async () => {
    const answer = await ollama.chat({
      model,
      messages: says('What is 2 plus 3?'),
      options,
      logprobs: true,
      top_logprobs: 2,
    });
    const entries = answer.logprobs ?? [];
    expect(entries.map(({ token }) => token).join('')).toBe(answer.message.content);
    for (const { top_logprobs: top = [], logprob } of entries) {
      expect(top).toHaveLength(2);
      expect(logprob).toBeLessThanOrEqual(0);
    }
  });

  test('stops mid-stream when aborted', async () => {
    const stream = await ollama.generate({
      model,
      prompt: 'x',
      raw: true,
      stream: true,
      options: { num_predict: -2, temperature: 1 },
    });
    const read = async () => {
      for await (const line of stream) if (line.response !== '') ollama.abort();
    };
    await expect(read()).rejects.toThrow(/abort/i);
    const stats = async () =>
      ((await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[]) ?? [];
    await expect.poll(async () => (await stats()).some((slot) => slot.is_processing)).toBe(false);
  });

  test('drops the oldest turns of a conversation that is too long, unless truncation is disabled', async () => {
    const long = Array.from({ length: 60 }, (_, index) => [
      ...says(`Question ${index}: ${'what is the colour of the sky over the sea? '.repeat(3)}`),
      { role: 'assistant', content: 'Blue.' },
    ]).flat();
    const messages = [...long, ...says('What is 2 plus 3?')];
    const answer = await ollama.chat({ model, messages, options });
    expect(answer.prompt_eval_count).toBeGreaterThan(500);
    expect(answer.prompt_eval_count).toBeLessThan(1024);
    await expect(ollama.chat({ model, messages, options, truncate: false } as never)).rejects.toThrow(
      /context holds 1024/,
    );
    const single = says('a long question '.repeat(2000));
    await expect(ollama.chat({ model, messages: single, options })).rejects.toThrow(/context holds 1024/);
  });

  test('gets an error for what this model does not support', async () => {
    const image = new Uint8Array([1, 2, 3]);
    await expect(ollama.generate({ model, prompt: 'x', images: [image] })).rejects.toThrow(
      /reads text and no images/,
    );
    await expect(
      ollama.chat({ model, messages: [{ role: 'user', content: 'x', images: [image] }] }),
    ).rejects.toThrow(/reads text and no images/);
    await expect(ollama.chat({ model, messages: says('x'), think: true })).rejects.toThrow(
      /does not support thinking/,
    );
    await expect(ollama.chat({ model: 'absent', messages: says('x') })).rejects.toMatchObject({
      message: "model 'absent' not found; the resident model is 'lathe-tiny'; GET /api/tags lists the models",
      status_code: 404,
    });
  });

  test('lists the available models', async () => {
    expect((await ollama.version()).version).toMatch(/^\d+\.\d+\.\d+/);
    const [running] = (await ollama.ps()).models;
    const [listed] = (await ollama.list()).models;
    expect(running).toMatchObject({
      name: `${model}:latest`,
      digest: listed?.digest,
      details: listed?.details,
    });
    const shown = await ollama.show({ model });
    expect(shown.capabilities).toEqual(expect.arrayContaining(['completion', 'tools', 'insert']));
    await expect(ollama.delete({ model })).rejects.toThrow(/embedded in the host/);
    await expect(ollama.push({ model })).rejects.toMatchObject({ status_code: 501 });
  });
});
