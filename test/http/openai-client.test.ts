import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { EngineError } from '../../src/engine/types.ts';
import { ByteTokenizer } from '../support/scripted-engine.ts';
import { scriptedServers, type serveScripted } from '../support/serve.ts';
import { until } from '../support/until.ts';

const serve = scriptedServers();
async function client(...options: Parameters<typeof serveScripted>) {
  const host = await serve(...options);
  return { host, openai: new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}

const hi = { model: 'scripted', messages: [{ role: 'user' as const, content: 'hi' }] };

describe('the official openai client', () => {
  test('lists models and chats', async () => {
    const { openai } = await client();
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual(['scripted']);
    expect((await openai.models.retrieve('scripted')).object).toBe('model');
    const answer = await openai.chat.completions.create(hi);
    expect(answer.choices[0]?.message.content).toBe('Hello, world!');
    expect(answer._request_id).toMatch(/^req_/);
  });

  test('streams, with usage, and its accumulated message equals the buffered one', async () => {
    const { openai } = await client();
    const buffered = await openai.chat.completions.create({ ...hi, seed: 1 });
    const runner = openai.chat.completions.stream({
      ...hi,
      seed: 1,
      stream_options: { include_usage: true },
    });
    const final = await runner.finalChatCompletion();
    expect(final.choices[0]?.message.content).toBe(buffered.choices[0]?.message.content);
    expect(final.choices[0]?.finish_reason).toBe('stop');
    expect(final.usage).toEqual(buffered.usage);
  });

  test('legacy completions, both ways', async () => {
    const { openai } = await client();
    const buffered = await openai.completions.create({ model: 'scripted', prompt: 'a' });
    let text = '';
    for await (const chunk of await openai.completions.create({
      model: 'scripted',
      prompt: 'a',
      stream: true,
    })) {
      text += chunk.choices[0]?.text ?? '';
    }
    expect(text).toBe(buffered.choices[0]?.text);
  });

  test('errors arrive as its own classes with message, code and param', async () => {
    const { openai } = await client();
    await expect(openai.chat.completions.create({ ...hi, model: 'x' })).rejects.toMatchObject({
      constructor: OpenAI.NotFoundError,
      code: 'model_not_found',
      param: 'model',
      requestID: expect.stringMatching(/^req_/),
    });
    await expect(openai.chat.completions.create({ ...hi, temperature: 3 })).rejects.toMatchObject({
      constructor: OpenAI.BadRequestError,
      param: 'temperature',
      message: expect.stringContaining('expected a number from 0 to 2'),
    });
  });

  test('an error in the middle of a stream is thrown, not taken for the end', async () => {
    const { openai } = await client({
      fail: { after: 2, error: new EngineError('device_lost', 'the GPU was lost') },
    });
    const stream = await openai.chat.completions.create({ ...hi, stream: true });
    const read = async () => {
      for await (const chunk of stream) expect(chunk.object).toBe('chat.completion.chunk');
    };
    await expect(read()).rejects.toMatchObject({
      constructor: OpenAI.APIError,
      message: expect.stringContaining('GPU was lost'),
    });
  });

  test('it retries a full queue after Retry-After, and gets its answer', async () => {
    const held = Promise.withResolvers<void>();
    const { host } = await client({ capacity: 1, hold: () => held.promise });
    const refused: number[] = [];
    const openai = new OpenAI({
      baseURL: `${host.url}/v1`,
      apiKey: 'none',
      maxRetries: 2,
      fetch: async (...args) => {
        const response = await fetch(...args);
        if (response.status === 429) {
          refused.push(response.status);
          held.resolve();
          await until(() => host.engine.running === 0);
        }
        return response;
      },
    });
    const answers = await Promise.all([
      openai.chat.completions.create(hi),
      openai.chat.completions.create(hi),
    ]);
    expect(refused).toEqual([429]);
    expect(answers.map(({ choices }) => choices[0]?.message.content)).toEqual([
      'Hello, world!',
      'Hello, world!',
    ]);
  });

  test('leaving the loop stops the generation', async () => {
    const held = Promise.withResolvers<void>();
    const { openai, host } = await client({
      answer: () => Array(500).fill('x'),
      hold: (piece) => (piece === 10 ? held.promise : undefined),
    });
    const stream = await openai.chat.completions.create({ ...hi, stream: true });
    let seen = 0;
    for await (const chunk of stream) {
      seen += chunk.choices.length;
      if (seen > 3) break;
    }
    await until(() => host.engine.requests[0]?.signal?.aborted === true);
    held.resolve();
    await until(() => host.engine.running === 0);
    expect(host.engine.produced).toBe(10);
  });

  test('several answers with log probabilities, streamed as buffered', async () => {
    const { openai } = await client({ answer: ({ sampling }) => ['a', String(sampling.seed)] });
    const params = { ...hi, n: 3, seed: 4, logprobs: true, top_logprobs: 1 };
    const buffered = await openai.chat.completions.create(params);
    expect(buffered.choices.map(({ message }) => message.content)).toEqual(['a4', 'a5', 'a6']);
    const final = await openai.chat.completions.stream(params).finalChatCompletion();
    const shown = ({ choices }: typeof buffered) =>
      choices
        .toSorted((a, b) => a.index - b.index)
        .map(({ message, logprobs }) => [message.content, logprobs?.content]);
    expect(shown(final)).toEqual(shown(buffered));
  });

  test('legacy completions with a suffix, log probabilities and several prompts', async () => {
    const { openai, host } = await client();
    Object.assign(host.engine.tokenizer, { fim: { prefix: 256, suffix: 257, middle: 258 } });
    const filled = await openai.completions.create({ model: 'scripted', prompt: 'a', suffix: 'b' });
    expect(filled.choices[0]?.text).toBe('Hello, world!');
    const completion = await openai.completions.create({
      model: 'scripted',
      prompt: ['a', 'b'],
      logprobs: 1,
      echo: true,
      max_tokens: 0,
    });
    expect(completion.choices.map(({ text, logprobs }) => [text, logprobs?.tokens])).toEqual([
      ['a', ['a']],
      ['b', ['b']],
    ]);
  });

  test('embeddings arrive as floats although it requests base64; images are refused with a message', async () => {
    const { openai } = await client({ embeds: 3 });
    const made = await openai.embeddings.create({ model: 'scripted', input: ['ab', 'c'] });
    expect(made.data.map(({ embedding }) => embedding.length)).toEqual([3, 3]);
    const { openai: chats } = await client();
    const url = 'data:image/png;base64,AAAA';
    const content = [{ type: 'image_url' as const, image_url: { url } }];
    await expect(
      chats.chat.completions.create({ model: 'scripted', messages: [{ role: 'user', content }] }),
    ).rejects.toMatchObject({
      constructor: OpenAI.BadRequestError,
      param: 'messages.0.content.0.type',
      message: expect.stringContaining("parts of type 'image_url' cannot be read by this model"),
    });
  });
});

describe('structured answers', () => {
  const city = z.object({ name: z.string(), people: z.number() });

  test('parse returns the type of a zod schema, and the schema constrains the answer', async () => {
    const { openai, host } = await client({ answer: () => ['{"name": "Ulm",', ' "people": 1}'] });
    const params = { ...hi, response_format: zodResponseFormat(city, 'city') };
    const answer = await openai.chat.completions.parse(params);
    expect(answer.choices[0]?.message.parsed).toEqual({ name: 'Ulm', people: 1 });
    expect(host.grammars.compiled).toMatchObject([
      { kind: 'json_schema', schema: { type: 'object', required: ['name', 'people'] } },
    ]);
    const streamed = await openai.chat.completions.stream(params).finalChatCompletion();
    expect(streamed.choices[0]?.message.parsed).toEqual({ name: 'Ulm', people: 1 });
  });
});

describe('tools', () => {
  const weather = { name: 'weather', parameters: z.object({ city: z.string() }) };
  const call = (name: string, city: string) =>
    `<tool_call>\n{"name": "${name}", "arguments": {"city": "${city}"}}\n</tool_call>`;
  const pieces = (text: string) => text.match(/[^]{1,7}/g) ?? [];
  const promptOf = (ids: readonly number[]) => new ByteTokenizer().decode(ids, { special: true });

  test('two calls after a text: parsed, streamed as buffered', async () => {
    const text = `Let me look.\n${call('weather', 'Ulm')}\n${call('weather', 'Bonn')}`;
    const { openai } = await client({ answer: () => pieces(text) });
    const params = { ...hi, tools: [zodFunction(weather)] };
    const answer = await openai.chat.completions.parse(params);
    const [choice] = answer.choices;
    expect(choice?.finish_reason).toBe('tool_calls');
    expect(choice?.message.content?.trim()).toBe('Let me look.');
    const shown = (message = choice?.message) =>
      message?.tool_calls?.map(
        (one) => one.type === 'function' && [one.function.name, one.function.parsed_arguments],
      );
    expect(shown()).toEqual([
      ['weather', { city: 'Ulm' }],
      ['weather', { city: 'Bonn' }],
    ]);
    const final = await openai.chat.completions.stream(params).finalChatCompletion();
    expect(shown(final.choices[0]?.message)).toEqual(shown());
    const ids = final.choices[0]?.message.tool_calls?.map(({ id }) => id) ?? [];
    expect(new Set(ids).size).toBe(2);
  });

  test.each([false, true])(
    'runTools calls the function and hands its result back (stream: %s)',
    async (stream) => {
      const { openai, host } = await client({
        contextLength: 20_000,
        answer: ({ prompt }) =>
          promptOf(prompt).includes('rain') ? ['It rains.'] : pieces(call('weather', 'Ulm')),
      });
      const params: unknown[] = [];
      const run = (args: { city: string }) => {
        params.push(args);
        return 'rain';
      };
      const tools = [
        {
          type: 'function' as const,
          function: {
            name: 'weather',
            description: 'of a city',
            parse: JSON.parse,
            function: run,
            parameters: { type: 'object', properties: { city: { type: 'string' } } },
          },
        },
      ];
      const runner = stream
        ? openai.chat.completions.runTools({ ...hi, tools, stream })
        : openai.chat.completions.runTools({ ...hi, tools });
      expect(await runner.finalContent()).toBe('It rains.');
      expect(params).toEqual([{ city: 'Ulm' }]);
      expect(host.engine.requests.length).toBe(2);
    },
  );

  test('text that is not a call stays text, even where tools are defined', async () => {
    const { openai } = await client({ answer: () => pieces('a <tool_cal of no meaning') });
    const answer = await openai.chat.completions.create({ ...hi, tools: [zodFunction(weather)] });
    expect(answer.choices[0]).toMatchObject({
      message: { content: 'a <tool_cal of no meaning' },
      finish_reason: 'stop',
    });
    expect(answer.choices[0]?.message).not.toHaveProperty('tool_calls');
  });

  test('a choice of an undefined tool is refused at tool_choice', async () => {
    const { openai } = await client();
    const params = {
      ...hi,
      tools: [zodFunction(weather)],
      tool_choice: { type: 'function' as const, function: { name: 'time' } },
    };
    await expect(openai.chat.completions.create(params)).rejects.toMatchObject({
      constructor: OpenAI.BadRequestError,
      param: 'tool_choice',
    });
  });
});
