import fc from 'fast-check';
import OpenAI from 'openai';
import OpenAiBefore from 'openai-6';
import { describe, expect, it } from 'vitest';
import type { Model } from '../../src/gateway/catalog/types.ts';
import { WireError } from '../../src/wires/core/error.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import { readEmbeddingsFacts, embeddingsTranslationOf } from '../../src/wires/embeddings/index.ts';
import { fromBase64, toBase64 } from '../../src/wires/embeddings/vectors.ts';
import { cassettesPath, interactions } from '../support/gateway/cassettes.ts';
import { modelOf } from '../support/gateway/models.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { describeShared } from '../support/shared.ts';

const requestOf = (body: Record<string, unknown>, text = JSON.stringify(body)) => ({
  text,
  facts: readEmbeddingsFacts(body),
});
const openai = modelOf('openai-chat');
const gemini = modelOf('google', { id: 'gemini-embedding', upstream: 'gemini-embedding-001' });

interface Body {
  readonly object: string;
  readonly model: string;
  readonly data: { object: string; index: number; embedding: unknown }[];
  readonly usage: unknown;
}
const answerOf = (model: Model, body: unknown, request: Record<string, unknown>) => {
  const translation = embeddingsTranslationOf(model.provider.wire);
  const answer = translation.answer(JSON.stringify(body), requestOf({ model: 'm', ...request }), model);
  return { ...answer, body: JSON.parse(answer.text) as Body };
};

const violationsOf = (body: Record<string, unknown>): string[] => {
  try {
    readEmbeddingsFacts(body);
  } catch (error) {
    if (error instanceof WireError && error.status === 400)
      return (error.violations ?? []).map(({ path }) => path);
    throw error;
  }
  return [];
};

describe('a request for embeddings', () => {
  it.each([
    ['ä text', 7, 1],
    [['a', '', 'c'], 2, 3],
    [[1, 2, 3], 3, 1],
    [[[1, 2], [3]], 3, 2],
  ])('of %j has its size and inputs as facts', (input, textBytes, inputs) => {
    expect(readEmbeddingsFacts({ model: 'm', input })).toMatchObject({
      model: 'm',
      textBytes,
      answers: inputs,
      parts: inputs,
      maxTokens: 0,
      stream: false,
      encoding: 'float',
      needs: [{ cap: 'embeddings', param: 'model' }],
    });
  });

  it('is refused with all violations at once', () => {
    expect(violationsOf({ model: '', input: [], encoding_format: 'hex', dimensions: 0, user: 5 })).toEqual([
      'model',
      'input',
      'encoding_format',
      'dimensions',
      'user',
    ]);
    expect(violationsOf({})).toEqual(['model', 'input']);
    const input = (value: unknown) => violationsOf({ model: 'm', input: value });
    expect(input({})).toEqual(['input']);
    expect(input(['a', 1, 'b', null])).toEqual(['input.1', 'input.3']);
    expect(input([1, 'a'])).toEqual(['input.1']);
    expect(input([1, -1])).toEqual(['input.1']);
    expect(input([[1], [], 'a', [1.5]])).toEqual(['input.1', 'input.2', 'input.3.0']);
    expect(input(Array.from({ length: 2049 }, () => 'a'))).toEqual(['input']);
    expect(input(Array.from({ length: 2048 }, () => 'a'))).toEqual([]);
    expect(
      violationsOf({ model: 'm', input: 'a', encoding_format: null, dimensions: null, user: null }),
    ).toEqual([]);
  });

  it('goes to OpenAI unchanged except for the model', () => {
    const text = '{ "input":["a", "\\u00e4"],"model" : "m", "dimensions": 8, "new_member": 1.0 }';
    const request = requestOf(JSON.parse(text) as Record<string, unknown>, text);
    expect(embeddingsTranslationOf('openai-chat').request(request, openai)).toEqual({
      path: '/embeddings',
      headers: {},
      text: text.replace('"m"', '"upstream-model"'),
    });
  });

  it('goes to Google as one request for each text', () => {
    const body = { model: 'm', input: ['a', 'b'], dimensions: 8, encoding_format: 'base64' };
    const { path, text } = embeddingsTranslationOf('google').request(requestOf(body), gemini);
    expect(path).toBe('/models/gemini-embedding-001:batchEmbedContents');
    const about = { model: 'models/gemini-embedding-001', outputDimensionality: 8 };
    expect(JSON.parse(text)).toEqual({
      requests: [
        { ...about, content: { parts: [{ text: 'a' }] } },
        { ...about, content: { parts: [{ text: 'b' }] } },
      ],
    });
    const tokens = requestOf({ model: 'm', input: [[1, 2]] });
    expect(() => embeddingsTranslationOf('google').request(tokens, gemini)).toThrow(WireError);
  });

  it('is refused where the provider has none', () => {
    expect(() => embeddingsTranslationOf('anthropic-messages')).toThrow(WireError);
  });
});

describe('embeddings', () => {
  const openaiBody = (...vectors: unknown[]) => ({
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model: 'upstream-model-2',
    usage: { prompt_tokens: 5, total_tokens: 5 },
  });
  const vector = [0.5, -0.25, 1];
  const coded = 'AAAAPwAAgL4AAIA/';

  it('are base64 where requested, whatever the provider sent, and floats otherwise', () => {
    for (const sent of [vector, coded]) {
      const base64 = answerOf(openai, openaiBody(sent, sent), {
        input: ['a', 'b'],
        encoding_format: 'base64',
      });
      expect(base64.body).toEqual(openaiBody(coded, coded));
      const float = answerOf(openai, openaiBody(sent, sent), { input: ['a', 'b'] });
      expect(float.body).toEqual(openaiBody(vector, vector));
      expect(float).toMatchObject({ isReported: true, usage: { fresh: 5, output: 0 } });
    }
  });

  it.each([
    ['now', OpenAI],
    ['a generation ago', OpenAiBefore],
  ])('are read by the OpenAI client of %s, which requests base64 by default', async (_, Client) => {
    const client = new Client({
      apiKey: 'k',
      fetch: async (_url: unknown, init?: { body?: unknown }) => {
        const requestBody = JSON.parse(init?.body as string) as Record<string, unknown>;
        expect(requestBody['encoding_format']).toBe('base64');
        const { text } = answerOf(openai, openaiBody(vector), requestBody);
        return new Response(text, { headers: { 'content-type': 'application/json' } });
      },
    });
    const { data } = await client.embeddings.create({ model: 'm', input: 'a' });
    expect(data.map(({ embedding }) => embedding)).toEqual([vector]);
  });

  it('pass byte for byte where they have the requested encoding', () => {
    const text =
      '{"object":"list", "data":[{"object":"embedding","index":0,"embedding":[1.0,2e-3]}],"model":"x","usage":{"prompt_tokens":1,"total_tokens":1},"more":{}}';
    const request = requestOf({ model: 'm', input: 'a' });
    expect(embeddingsTranslationOf('lathe').answer(text, request, openai).text).toBe(text);
  });

  it('are completed and sorted, and charged by bytes where the provider reports no usage', () => {
    const data = [
      { index: 1, embedding: [2] },
      { index: 0, embedding: [1] },
    ];
    const { body, usage, isReported } = answerOf(openai, { data, id: 'x' }, { input: ['abcdefgh', 'ä'] });
    expect(body).toEqual({
      object: 'list',
      data: [
        { object: 'embedding', index: 0, embedding: [1] },
        { object: 'embedding', index: 1, embedding: [2] },
      ],
      model: 'the-model',
      usage: { prompt_tokens: 3, total_tokens: 3 },
      id: 'x',
    });
    expect(isReported).toBe(false);
    expect(usage.fresh).toBe(3);
  });

  it('in the right encoding get the missing members around them', () => {
    const { object: _, model: __, ...bare } = openaiBody([1]);
    expect(answerOf(openai, bare, { input: 'a' }).body).toEqual({ ...openaiBody([1]), model: 'the-model' });
  });

  it('of Google are converted to the format of OpenAI', () => {
    const sent = { embeddings: [{ values: vector }], usageMetadata: { promptTokenCount: 4 } };
    const { body, usage } = answerOf(gemini, sent, { input: 'a', encoding_format: 'base64' });
    expect(body).toEqual({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: coded }],
      model: 'gemini-embedding',
      usage: { prompt_tokens: 4, total_tokens: 4 },
    });
    expect(usage.fresh).toBe(4);
    expect(answerOf(gemini, sent, { input: 'a' }).body.data[0]?.embedding).toEqual(vector);
  });

  it('that are invalid, or lack an input, are a failure of the provider', () => {
    const wrong = (model: Model, body: unknown) => () => answerOf(model, body, { input: ['a', 'b'] });
    for (const body of [
      null,
      {},
      openaiBody([1]),
      openaiBody([1], []),
      openaiBody([1], ['x']),
      openaiBody([1], 'AAA'),
    ])
      expect(wrong(openai, body)).toThrow(UpstreamFailure);
    expect(wrong(openai, openaiBody([1], 'AADAfw=='))).toThrow(UpstreamFailure);
    for (const body of [{}, { embeddings: [{ values: [1] }] }, { embeddings: [{ values: [1] }, {}] }])
      expect(wrong(gemini, body)).toThrow(UpstreamFailure);
    const translation = embeddingsTranslationOf('openai-chat');
    expect(() => translation.answer('<html>', requestOf({ model: 'm', input: 'a' }), openai)).toThrow(
      UpstreamFailure,
    );
  });

  it('keep every bit through base64 and floats', () => {
    const finite = fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0);
    fc.assert(
      fc.property(fc.array(finite, { minLength: 1 }), (values) => {
        const text = toBase64(values);
        expect(text).toBe(Buffer.from(new Float32Array(values).buffer).toString('base64'));
        const floats = JSON.parse(JSON.stringify(fromBase64(text))) as number[];
        expect(new Float32Array(floats)).toEqual(new Float32Array(values.map((value) => value || 0)));
        expect(toBase64(floats)).toBe(toBase64(values.map((value) => value || 0)));
      }),
    );
  });
});

const recorded = [
  'basic',
  'base64',
  'dimensions',
  'large-text',
  'max-tokens',
  'mixed-batch',
  'tokens',
  'whitespace',
];

describeShared('embeddings as OpenAI recorded them', [cassettesPath('openai'), openApiDocument], () => {
  it.each(recorded)('embeddings-%s passes, and has the same values in the other encoding', (name) => {
    for (const { path, request, status, response } of interactions(`openai/embeddings-${name}`)) {
      expect([path, status]).toEqual(['/embeddings', 200]);
      const body = JSON.parse(request) as Record<string, unknown>;
      const model = modelOf('openai-chat', { upstream: String(body['model']) });
      const translation = embeddingsTranslationOf('openai-chat');
      const clientRequest = requestOf(body, request);
      expect(translation.request(clientRequest, model).text).toBe(request);
      const answer = translation.answer(response, clientRequest, model);
      expect(answer.text).toBe(response);
      const { usage, data } = JSON.parse(response) as { usage: { prompt_tokens: number }; data: unknown[] };
      expect(answer).toMatchObject({ isReported: true, usage: { fresh: usage.prompt_tokens } });
      expect(data).toHaveLength(clientRequest.facts.inputs.length);
      // No text has more tokens than bytes: what the bound rests on.
      expect(usage.prompt_tokens).toBeLessThanOrEqual(clientRequest.facts.textBytes);

      const other = clientRequest.facts.encoding === 'base64' ? 'float' : 'base64';
      const turned = translation.answer(response, requestOf({ ...body, encoding_format: other }), model);
      expect(schemaFaults('embeddings', 'body', turnedToFloats(turned.text))).toEqual([]);
      const back = translation.answer(turned.text, clientRequest, model);
      expect(vectorsOf(back.text)).toEqual(vectorsOf(response));
    }
  });

  it.each([
    ['bad-request', { status: 400, type: 'invalid_request_error' }],
    ['unknown-model', { status: 502, type: 'upstream_error' }],
  ])('embeddings-%s is a refusal', (name, error) => {
    const [exchange] = interactions(`openai/embeddings-${name}`);
    const fault = embeddingsTranslationOf('openai-chat').failure(
      exchange?.status ?? 0,
      exchange?.response ?? '',
      {},
    );
    expect(fault.error).toMatchObject(error);
    expect(fault.isRetryable).toBe(false);
  });

  it('the request that OpenAI refused is refused before it is sent, with all violations', () => {
    const [exchange] = interactions('openai/embeddings-bad-request');
    expect(violationsOf(JSON.parse(exchange?.request ?? '{}') as Record<string, unknown>)).toEqual([
      'encoding_format',
      'dimensions',
    ]);
  });
});

/** As float32, the precision of the data. */
const vectorsOf = (text: string): unknown[] =>
  (JSON.parse(text) as Body).data.map(({ embedding }) =>
    typeof embedding === 'string' ? embedding : toBase64(embedding as number[]),
  );

/** OpenAI's document knows of floats only. */
function turnedToFloats(text: string): unknown {
  const body = JSON.parse(text) as Body;
  const data = body.data.map((item) => ({
    ...item,
    embedding: typeof item.embedding === 'string' ? fromBase64(item.embedding) : item.embedding,
  }));
  return { ...body, data };
}
