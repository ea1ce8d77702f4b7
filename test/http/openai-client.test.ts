import OpenAI from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { serveScripted } from '../support/serve.ts';

const hosts: { close(): Promise<void> }[] = [];
async function client(...options: Parameters<typeof serveScripted>) {
  const host = await serveScripted(...options);
  hosts.push(host);
  return { host, openai: new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'none', maxRetries: 0 }) };
}
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

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

  test('it retries a full queue as Retry-After says, and gets its answer', async () => {
    const { host } = await client({ capacity: 1, delayMs: 60 });
    const openai = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'none', maxRetries: 2 });
    const answers = await Promise.all([
      openai.chat.completions.create(hi),
      openai.chat.completions.create(hi),
    ]);
    expect(answers.map(({ choices }) => choices[0]?.message.content)).toEqual([
      'Hello, world!',
      'Hello, world!',
    ]);
  });

  test('leaving the loop stops the generation', async () => {
    const { openai, host } = await client({ answer: () => Array(500).fill('x'), delayMs: 5 });
    const stream = await openai.chat.completions.create({ ...hi, stream: true });
    let seen = 0;
    for await (const chunk of stream) {
      seen += chunk.choices.length;
      if (seen > 3) break;
    }
    for (let tries = 0; tries < 100 && host.engine.running > 0; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10));
    expect(host.engine.running).toBe(0);
    expect(host.engine.produced).toBeLessThan(60);
  });
});
