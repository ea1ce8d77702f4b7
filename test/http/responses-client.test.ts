import OpenAI from 'openai';
import { ResponsesToolRunner } from 'openai/helpers/responses-tool-runner';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import type { ResponseInput } from 'openai/resources/responses/responses';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { EngineError } from '../../src/engine/types.ts';
import { until } from '../support/until.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
async function client(...options: Parameters<typeof serve>) {
  const host = await serve(...options);
  return { host, openai: new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}
const hi = { model: 'scripted', input: 'hi' };
const call = (name: string, city: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": {"city": "${city}"}}\n</tool_call>`;
const weather = {
  type: 'function' as const,
  name: 'weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
};

describe('responses with the official openai client', () => {
  test('buffered', async () => {
    const { openai } = await client();
    const response = await openai.responses.create(hi);
    expect(response.output_text).toBe('Hello, world!');
    expect(response.status).toBe('completed');
    expect(response._request_id).toMatch(/^req_/);
  });

  test('streamed as it comes', async () => {
    const { openai } = await client();
    let text = '';
    let last = '';
    for await (const event of await openai.responses.create({ ...hi, stream: true })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
      last = event.type;
    }
    expect([text, last]).toEqual(['Hello, world!', 'response.completed']);
  });

  test('its helper accumulates the stream to the buffered answer', async () => {
    const { openai } = await client();
    const buffered = await openai.responses.create(hi);
    const final = await openai.responses.stream(hi).finalResponse();
    expect(final.output_text).toBe(buffered.output_text);
    expect(final.usage).toEqual(buffered.usage);
  });

  test('it parses an answer with a schema', async () => {
    const { openai, host } = await client({ answer: () => ['{"name":', '"Mia"}'] });
    const format = zodTextFormat(z.object({ name: z.string() }), 'person');
    const parsed = await openai.responses.parse({ ...hi, text: { format } });
    expect(parsed.output_parsed).toEqual({ name: 'Mia' });
    const streamed = await openai.responses.stream({ ...hi, text: { format } }).finalResponse();
    expect(streamed.output_parsed).toEqual({ name: 'Mia' });
    expect(host.grammars.compiled).toMatchObject([{ kind: 'json_schema' }, { kind: 'json_schema' }]);
  });

  test('a loop of tools: two calls at once, and their outputs sent back with them', async () => {
    const { openai, host } = await client({
      answer: ({ prompt }) =>
        Buffer.from(prompt.filter((id) => id < 256)).includes('rain')
          ? ['It rains.']
          : ['I look.', call('weather', 'Oslo'), '\n', call('weather', 'Rome')],
    });
    const tools = [weather];
    const input: ResponseInput = [{ role: 'user', content: 'Weather?' }];
    const first = await openai.responses.create({ ...hi, input, tools });
    expect(first.output.map(({ type }) => type)).toEqual(['message', 'function_call', 'function_call']);
    const calls = first.output.filter((item) => item.type === 'function_call');
    expect(calls.map((item) => JSON.parse(item.arguments) as unknown)).toEqual([
      { city: 'Oslo' },
      { city: 'Rome' },
    ]);
    expect(new Set(calls.flatMap(({ id, call_id }) => [id, call_id])).size).toBe(4);
    const outputs = calls.map(({ call_id }) => ({
      type: 'function_call_output' as const,
      call_id,
      output: 'rain',
    }));
    const second = await openai.responses.create({
      ...hi,
      input: [...input, ...(first.output as ResponseInput), ...outputs],
      tools,
    });
    expect(second.output_text).toBe('It rains.');
    expect(host.faults).toEqual([]);
  });

  test('a call, streamed, is parsed by its helper', async () => {
    const { openai } = await client({ answer: () => Array.from(call('weather', 'Oslo')) });
    const tools = [zodResponsesFunction({ name: 'weather', parameters: z.object({ city: z.string() }) })];
    const stream = openai.responses.stream({ ...hi, tools });
    let text = '';
    stream.on('response.function_call_arguments.delta', ({ delta }) => {
      text += delta;
    });
    const [item] = (await stream.finalResponse()).output;
    if (item?.type !== 'function_call') throw new Error('no call');
    expect(item.parsed_arguments).toEqual({ city: 'Oslo' });
    expect(item.arguments).toBe(text);
  });

  test.each([true, false])('its tool runner completes the loop (stream: %s)', async (stream) => {
    const { openai, host } = await client({
      answer: ({ prompt }) => {
        const promptText = Buffer.from(prompt.filter((id) => id < 256)).toString();
        return promptText.includes('rain') ? ['It rains.'] : Array.from(call('weather', 'Oslo'));
      },
    });
    const cities: unknown[] = [];
    const runner = new ResponsesToolRunner({
      functions: [
        {
          tool: weather,
          execute: ({ city }) => {
            cities.push(city);
            return 'rain';
          },
        },
      ],
    });
    const response = await runner.run(openai, hi, { stream });
    expect(response.output_text).toBe('It rains.');
    expect(cities).toEqual(['Oslo']);
    expect(host.engine.requests).toHaveLength(2);
  });

  test('errors arrive as its own classes with message, code and param', async () => {
    const { openai } = await client();
    await expect(openai.responses.create({ ...hi, model: 'gpt-9' })).rejects.toMatchObject({
      constructor: OpenAI.NotFoundError,
      code: 'model_not_found',
      param: 'model',
    });
    const image = {
      type: 'input_image' as const,
      detail: 'auto' as const,
      image_url: 'data:image/png;base64,',
    };
    await expect(
      openai.responses.create({ ...hi, input: [{ role: 'user', content: [image] }] }),
    ).rejects.toMatchObject({
      constructor: OpenAI.BadRequestError,
      message: expect.stringContaining("'input_image' cannot be read by this model"),
    });
    await expect(openai.responses.create({ ...hi, previous_response_id: 'resp_1' })).rejects.toMatchObject({
      constructor: OpenAI.BadRequestError,
      param: 'previous_response_id',
    });
    await expect(openai.responses.retrieve('resp_1')).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(openai.responses.delete('resp_1')).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  test('an error in the middle of a stream is thrown, by both ways of streaming', async () => {
    const { openai } = await client({
      fail: { after: 2, error: new EngineError('device_lost', 'the GPU was lost') },
    });
    const read = async () => {
      for await (const event of await openai.responses.create({ ...hi, stream: true }))
        expect(event.type).toMatch(/^response\./);
    };
    const thrown = { constructor: OpenAI.APIError, message: expect.stringContaining('GPU was lost') };
    await expect(read()).rejects.toMatchObject(thrown);
    await expect(openai.responses.stream(hi).finalResponse()).rejects.toMatchObject({
      message: expect.stringContaining('GPU was lost'),
    });
  });

  test('leaving the stream stops the engine', async () => {
    const held = Promise.withResolvers<void>();
    const { openai, host } = await client({
      answer: () => Array<string>(500).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    for await (const event of await openai.responses.create({ ...hi, stream: true })) {
      if (event.type === 'response.output_text.delta') break;
    }
    await until(() => host.engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => host.engine.running === 0);
    expect(host.engine.produced).toBe(4);
  });
});
