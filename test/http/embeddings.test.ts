import OpenAI from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { embeddingList } from '../../src/wires/embeddings/server-schema.ts';
import { modelEntry } from '../../src/wires/core/models-schema.ts';
import { serveScripted } from '../support/serve.ts';
import { until } from '../support/until.ts';

const hosts: { close(): Promise<void> }[] = [];
async function serve(script: Parameters<typeof serveScripted>[0] = {}) {
  const host = await serveScripted({ embeds: 8, ...script });
  hosts.push(host);
  return host;
}
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

const path = '/v1/embeddings';
const errorOf = async (response: Response) => openaiError.parse(await response.json()).error;
const bytes = (text: string) => [...new TextEncoder().encode(text)];

describe('POST /v1/embeddings', () => {
  test('a vector for each input, in order, for every input type', async () => {
    const { post, engine } = await serve({ bosId: 256 });
    const forms: [unknown, number[][]][] = [
      ['ab', [[256, 97, 98]]],
      [
        ['ab', 'c'],
        [
          [256, 97, 98],
          [256, 99],
        ],
      ],
      [[97, 98], [[97, 98]]],
      [
        [[99], [97, 98]],
        [[99], [97, 98]],
      ],
      // Special tokens in the text are parsed.
      ['a<|im_end|>', [[256, 97, 257]]],
    ];
    for (const [input, inputs] of forms) {
      const response = await post(path, { model: 'scripted', input, user: 'me' });
      expect(response.status).toBe(200);
      const body = embeddingList.strict().parse(await response.json());
      expect(engine.embedRequests.at(-1)?.inputs).toEqual(inputs);
      expect(body.data.map(({ index }) => index)).toEqual(inputs.map((_, index) => index));
      const tokens = inputs.flat().length;
      expect(body).toMatchObject({
        object: 'list',
        model: 'scripted',
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      });
      for (const [index, { embedding }] of body.data.entries()) {
        const [first = 0, second = 0] = inputs[index] as number[];
        const length = Math.hypot(first + 1, second);
        expect(embedding).toHaveLength(8);
        expect((embedding as number[])[0]).toBeCloseTo((first + 1) / length, 6);
        expect((embedding as number[])[1]).toBeCloseTo(second / length, 6);
      }
    }
  });

  test('base64 contains the same floats as the numbers, bit for bit', async () => {
    const { post } = await serve();
    const requestBody = { input: ['xyz', 'A'] };
    const floats = embeddingList.parse(await (await post(path, requestBody)).json());
    const coded = embeddingList.parse(
      await (await post(path, { ...requestBody, encoding_format: 'base64' })).json(),
    );
    for (const [index, { embedding }] of coded.data.entries()) {
      const raw = Buffer.from(embedding as string, 'base64');
      const values = Array.from({ length: raw.length / 4 }, (_, i) => raw.readFloatLE(4 * i));
      expect(Float32Array.from(floats.data[index]?.embedding as number[])).toEqual(Float32Array.from(values));
      expect(values).toHaveLength(8);
    }
  });

  test('dimensions reach the engine; more than the model supports are refused', async () => {
    const { post, engine } = await serve();
    await post(path, { input: 'a', dimensions: 3 });
    expect(engine.embedRequests[0]?.dimensions).toBe(3);
    await post(path, { input: 'a', dimensions: null, encoding_format: null });
    expect(engine.embedRequests[1]?.dimensions).toBeUndefined();
    const refused = await post(path, { input: 'a', dimensions: 9 });
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({
      param: 'dimensions',
      message: expect.stringMatching(/at most 8/),
    });
  });

  test('every violation of a body at once, with its path', async () => {
    const { post, engine } = await serve();
    const response = await post(path, {
      input: ['a', '', 5],
      dimensions: 0,
      encoding_format: 'hex',
      model: 7,
    });
    expect(response.status).toBe(400);
    const { violations } = (await errorOf(response)) as { violations?: { path: string }[] };
    expect(violations?.map((one) => one.path).sort()).toEqual([
      'dimensions',
      'encoding_format',
      'input.1',
      'input.2',
      'model',
    ]);
    for (const input of [undefined, null, '', [], [[]], {}, [['a']], [1.5], [-1]]) {
      expect((await post(path, { input })).status, JSON.stringify(input)).toBe(400);
    }
    expect(engine.embedRequests).toEqual([]);
  });

  test('all unknown token ids are listed', async () => {
    const { post } = await serve();
    const response = await post(path, { input: [[1, 99999], [2], [777]] });
    const { violations } = (await errorOf(response)) as { violations?: unknown };
    expect(violations).toEqual([
      { path: 'input.0', message: expect.stringMatching(/99999.*0 to 258/) },
      { path: 'input.2', message: expect.stringMatching(/777/) },
    ]);
  });

  test('at most 2048 inputs', async () => {
    const { post } = await serve();
    const many = Array.from({ length: 2048 }, () => 'a');
    expect((await post(path, { input: many })).status).toBe(200);
    const refused = await post(path, { input: [...many, 'b'] });
    expect(refused.status).toBe(400);
    expect((await errorOf(refused)).message).toMatch(/at most 2048 inputs/);
  });

  test('texts that are too long are refused, naming both numbers and every text', async () => {
    const { post, engine } = await serve({ contextLength: 10 });
    const response = await post(path, { input: ['a'.repeat(10), 'b'.repeat(11), 'c'.repeat(20)] });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({
      code: 'context_length_exceeded',
      param: 'input.1',
      message: expect.stringMatching(/10 tokens.*input\.1 has 11, input\.2 has 20/),
    });
    const huge = await post(path, { input: ['ok', 'x'.repeat(5_000_000)] });
    expect(await errorOf(huge)).toMatchObject({
      code: 'context_length_exceeded',
      param: 'input.1',
      message: expect.stringContaining('input.1 has 5000000 characters (at most 2560 are read)'),
    });
    expect(engine.embedRequests).toEqual([]);
    const larger = await serve({ contextLength: 100 });
    const long = await larger.post(path, { input: ['ok', 'x'.repeat(25_000)] });
    expect(await errorOf(long)).toMatchObject({
      code: 'context_length_exceeded',
      param: 'input.1',
      message: expect.stringMatching(/input\.1 has about \d{5}/),
    });
  });

  test('an unknown model is 404; a model of the other kind is 400 with advice', async () => {
    const embeds = await serve();
    expect((await embeds.post(path, { input: 'a', model: 'gpt-9' })).status).toBe(404);
    for (const [route, body] of [
      ['/v1/chat/completions', { messages: [{ role: 'user', content: 'hi' }] }],
      ['/v1/completions', { prompt: 'hi' }],
    ] as const) {
      const refused = await embeds.post(route, body);
      expect(refused.status).toBe(400);
      expect(await errorOf(refused)).toMatchObject({
        code: 'unsupported_capability',
        message: expect.stringContaining('/v1/embeddings'),
      });
    }
  });

  test('a model that generates embeds too, and still generates', async () => {
    const generates = await serveScripted();
    hosts.push(generates);
    const response = await generates.post(path, { input: ['ab', 'c'] });
    expect(response.status).toBe(200);
    expect(embeddingList.parse(await response.json()).data.map(({ embedding }) => embedding.length)).toEqual([
      8, 8,
    ]);
    expect((await generates.post('/v1/completions', { prompt: 'hi' })).status).toBe(200);
  });

  test.each([
    [{ embeds: 5 }, { embedding_dimensions: 5, pooling: 'mean' }],
    [{ embeds: undefined }, { embedding_dimensions: 8, pooling: 'last' }],
  ])('the model entry has the number of dimensions and the pooling: %o', async ({ embeds }, expected) => {
    const host = await serveScripted(embeds === undefined ? {} : { embeds });
    hosts.push(host);
    expect(modelEntry.parse(await (await host.get('/v1/models/scripted')).json())).toMatchObject(expected);
  });

  test.each([
    [new EngineError('queue_full', 'full'), 429],
    [new EngineError('device_lost', 'lost'), 503],
    [new EngineError('broken_model', 'not numbers'), 500],
  ])('engine refusals have their status: %s', async (error, status) => {
    const { post } = await serve({ fail: { after: 0, error } });
    const response = await post(path, { input: 'a' });
    expect(response.status).toBe(status);
    expect((await errorOf(response)).code).toBe(error.code);
  });

  test('a client that disconnects while the device hangs holds no resources', async () => {
    const { post, get, engine, faults } = await serve({ hang: true });
    const leave = new AbortController();
    const request = post(path, { input: 'a' }, { signal: leave.signal });
    request.catch(() => undefined);
    await until(() => engine.running === 1);
    leave.abort();
    await expect(request).rejects.toThrow();
    expect(engine.embedRequests[0]?.signal).toBeDefined();
    expect((await get('/health')).status).toBe(200);
    expect(faults).toEqual([]);
  });

  test('the official client gets floats although it requests base64', async () => {
    const { url, engine } = await serve();
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const made = await openai.embeddings.create({ model: 'scripted', input: ['A', 'zz'], dimensions: 4 });
    expect(made.data.map(({ embedding }) => embedding.length)).toEqual([4, 4]);
    expect(made.data[0]?.embedding[0]).toBeCloseTo(1, 6);
    expect(made.data[1]?.embedding[1]).toBeCloseTo(122 / Math.hypot(123, 122), 6);
    expect(made.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 });
    expect(engine.embedRequests[0]?.inputs).toEqual([bytes('A'), bytes('zz')]);
    const plain = await openai.embeddings.create({ model: 'scripted', input: 'A', encoding_format: 'float' });
    expect(plain.data[0]?.embedding).toHaveLength(8);
    await expect(openai.embeddings.create({ model: 'scripted', input: [] })).rejects.toMatchObject({
      status: 400,
      param: 'input',
    });
  });
});
