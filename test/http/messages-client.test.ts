import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { EngineError } from '../../src/engine/types.ts';
import { until } from '../support/until.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
async function client(...options: Parameters<typeof serve>) {
  const host = await serve(...options);
  return { host, anthropic: new Anthropic({ baseURL: host.url, apiKey: 'none', maxRetries: 0 }) };
}
const hi = { model: 'scripted', max_tokens: 1000, messages: [{ role: 'user' as const, content: 'hi' }] };
const call = (name: string, city: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": {"city": "${city}"}}\n</tool_call>`;
const weather = {
  name: 'weather',
  description: 'The weather in a city.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
};
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

describe('messages with the official @anthropic-ai/sdk client', () => {
  test('buffered, with the request id', async () => {
    const { anthropic } = await client();
    const message = await anthropic.messages.create(hi);
    expect(textOf(message)).toBe('Hello, world!');
    expect(message.stop_reason).toBe('end_turn');
    expect(message._request_id).toMatch(/^req_/);
  });

  test('streamed, and accumulated by its helper to the buffered answer', async () => {
    const { anthropic } = await client({ cached: 3 });
    const buffered = await anthropic.messages.create(hi);
    const names: string[] = [];
    for await (const event of await anthropic.messages.create({ ...hi, stream: true }))
      names.push(event.type);
    expect([names[0], names.at(-1)]).toEqual(['message_start', 'message_stop']);
    const stream = anthropic.messages.stream(hi);
    const final = await stream.finalMessage();
    expect({ ...final, id: '' }).toEqual({ ...buffered, id: '', parsed_output: null });
    expect(stream.request_id).toMatch(/^req_/);
  });

  test('tokens are counted as the answer counts them', async () => {
    const { anthropic } = await client();
    const { model, messages } = hi;
    const system = 'Be brief.';
    const { input_tokens } = await anthropic.messages.countTokens({ model, messages, system });
    expect((await anthropic.messages.create({ ...hi, system })).usage.input_tokens).toBe(input_tokens);
  });

  test('it parses an answer with a schema', async () => {
    const { anthropic, host } = await client({ answer: () => ['{"name":', '"Mia"}'] });
    const format = zodOutputFormat(z.object({ name: z.string() }));
    const message = await anthropic.messages.parse({ ...hi, output_config: { format } });
    expect(message.parsed_output).toEqual({ name: 'Mia' });
    expect(host.grammars.compiled).toMatchObject([{ kind: 'json_schema' }]);
  });

  test.each([true, false])(
    'a loop of tools: two calls at once, and their results (stream: %s)',
    async (stream) => {
      const { anthropic, host } = await client({
        answer: ({ prompt }) =>
          Buffer.from(prompt.filter((id) => id < 256)).includes('rain')
            ? ['It rains.']
            : ['I look.', ...Array.from(call('weather', 'Oslo')), '\n', call('weather', 'Rome')],
      });
      const ask = (messages: Anthropic.MessageParam[]) => {
        const request = { ...hi, messages, tools: [weather] };
        return stream
          ? anthropic.messages.stream(request).finalMessage()
          : anthropic.messages.create(request);
      };
      const question: Anthropic.MessageParam = { role: 'user', content: 'Weather?' };
      const first = await ask([question]);
      expect(first.stop_reason).toBe('tool_use');
      expect(first.content.map(({ type }) => type)).toEqual(['text', 'tool_use', 'tool_use']);
      const calls = first.content.filter((block) => block.type === 'tool_use');
      expect(calls.map(({ input }) => input)).toEqual([{ city: 'Oslo' }, { city: 'Rome' }]);
      for (const { id } of calls) expect(id).toMatch(/^toolu_\w+$/);
      const results = calls.map(({ id }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: 'rain',
      }));
      const answered: Anthropic.MessageParam[] = [
        question,
        { role: 'assistant', content: first.content as Anthropic.ContentBlockParam[] },
        { role: 'user', content: results },
      ];
      const second = await ask(answered);
      expect(textOf(second)).toBe('It rains.');
      expect(host.faults).toEqual([]);
    },
  );

  test("its tool runner completes the loop, and a tool's failure is sent to the model", async () => {
    const { anthropic, host } = await client({
      answer: ({ prompt }) => {
        const promptText = Buffer.from(prompt.filter((id) => id < 256)).toString();
        if (promptText.includes('rain')) return ['It rains.'];
        return Array.from(call('weather', promptText.includes('Error: ') ? 'Oslo' : 'Nowhere'));
      },
    });
    const tool = betaZodTool({
      name: 'weather',
      description: 'The weather in a city.',
      inputSchema: z.object({ city: z.string() }),
      run: ({ city }) => {
        if (city === 'Oslo') return 'rain';
        throw new Error('no such city');
      },
    });
    const message = await anthropic.beta.messages.toolRunner({ ...hi, tools: [tool], stream: false });
    expect(message.content).toMatchObject([{ type: 'text', text: 'It rains.' }]);
    expect(host.engine.requests).toHaveLength(3);
  });

  test('errors arrive as its own classes with type, code and request', async () => {
    const { anthropic } = await client({ contextLength: 100 });
    await expect(anthropic.messages.create({ ...hi, model: 'claude-9' })).rejects.toMatchObject({
      constructor: Anthropic.NotFoundError,
      type: 'not_found_error',
      errorCode: 'model_not_found',
      requestID: expect.stringMatching(/^req_/),
    });
    const source = { type: 'base64' as const, media_type: 'image/png' as const, data: 'AA==' };
    const images = [{ role: 'user' as const, content: [{ type: 'image' as const, source }] }];
    await expect(anthropic.messages.create({ ...hi, messages: images })).rejects.toMatchObject({
      constructor: Anthropic.BadRequestError,
      type: 'invalid_request_error',
      message: expect.stringContaining("'image' cannot be read by this model"),
    });
    const long = [{ role: 'user' as const, content: 'long '.repeat(100) }];
    await expect(anthropic.messages.create({ ...hi, messages: long })).rejects.toMatchObject({
      errorCode: 'context_length_exceeded',
    });
    const full = await client({ capacity: 0 });
    await expect(full.anthropic.messages.create(hi)).rejects.toBeInstanceOf(Anthropic.RateLimitError);
  });

  test('an error in the middle of a stream is thrown, by both ways of streaming', async () => {
    const { anthropic } = await client({
      fail: { after: 2, error: new EngineError('device_lost', 'the GPU was lost') },
    });
    const read = async () => {
      for await (const event of await anthropic.messages.create({ ...hi, stream: true }))
        expect(event.type).not.toBe('message_stop');
    };
    const thrown = { type: 'api_error', message: expect.stringContaining('GPU was lost') };
    await expect(read()).rejects.toMatchObject(thrown);
    await expect(anthropic.messages.stream(hi).finalMessage()).rejects.toMatchObject(thrown);
  });

  test('aborting the stream stops the engine', async () => {
    const held = Promise.withResolvers<void>();
    const { anthropic, host } = await client({
      answer: () => Array<string>(500).fill('x'),
      hold: (piece) => (piece === 4 ? held.promise : undefined),
    });
    const stream = anthropic.messages.stream(hi);
    stream.on('text', () => stream.abort());
    await expect(stream.finalMessage()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
    await until(() => host.engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => host.engine.running === 0);
    expect(host.engine.produced).toBe(4);
  });
});
