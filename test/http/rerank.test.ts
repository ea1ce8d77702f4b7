import { CohereClient, CohereClientV2 } from 'cohere-ai';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { EngineError } from '../../src/engine/types.ts';
import { openaiError } from '../../src/planes/error-schema.ts';
import { modelEntry } from '../../src/wires/core/models-schema.ts';
import { sigmoid } from '../../src/wires/rerank/answer.ts';
import { rerankAnswer } from '../../src/wires/rerank/server-schema.ts';
import { serveScripted } from '../support/serve.ts';
import { createSpanRecorder, transcriptLines } from '../support/span-recorder.ts';
import { until } from '../support/until.ts';

const hosts: { close(): Promise<void> }[] = [];
async function serve(
  script: Parameters<typeof serveScripted>[0] = {},
  sinks: Parameters<typeof serveScripted>[3] = [],
) {
  const host = await serveScripted({ ranks: true, ...script }, 'ready', undefined, sinks);
  hosts.push(host);
  return host;
}
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});

const paths = ['/v1/rerank', '/v2/rerank', '/rerank', '/reranking', '/v1/reranking'];
const path = '/v1/rerank';
/** Documents with 1, 3 and no letters of the query `fox`: logits of -1, 1 and -2. */
const foxes = { query: 'fox', documents: ['x!', 'fox', 'bird'] };
const order = [1, 0, 2];
const logits = [1, -1, -2];
const errorOf = async (response: Response) => openaiError.parse(await response.json()).error;
const answerOf = async (response: Response) => {
  expect(response.status).toBe(200);
  return rerankAnswer.parse(await response.json());
};

describe('POST /v1/rerank and the paths of other servers', () => {
  test.each(paths)('%s: results in descending order, with the members of every server', async (where) => {
    const { post, engine } = await serve();
    const answer = await answerOf(await post(where, { model: 'scripted', ...foxes, user: 'me' }));
    expect(answer).toEqual({
      id: expect.stringMatching(/^rerank-[0-9a-f-]{36}$/),
      object: 'list',
      model: 'scripted',
      results: order.map((index, at) => ({ index, relevance_score: sigmoid(logits[at] as number) })),
      usage: { prompt_tokens: 9 + 3 * 4, total_tokens: 9 + 3 * 4 },
      meta: {
        api_version: { version: where === '/v2/rerank' ? '2' : '1' },
        tokens: { input_tokens: 9 + 3 * 4, output_tokens: 0 },
      },
    });
    expect(engine.rankRequests).toHaveLength(1);
  });

  test("llama.cpp's paths take what curl sends by default", async () => {
    const { url } = await serve();
    const body = JSON.stringify(foxes);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const statuses = await Promise.all(
      paths.map(async (where) => (await fetch(`${url}${where}`, { method: 'POST', headers, body })).status),
    );
    expect(statuses).toEqual([415, 415, 200, 200, 415]);
  });

  test('top_n, return_documents, raw_scores, and documents as objects', async () => {
    const { post } = await serve();
    const documents = [{ text: 'x!', title: 'kept' }, 'fox', { text: 'bird' }];
    const best = await answerOf(
      await post(path, { ...foxes, documents, top_n: 2, return_documents: true, raw_scores: true }),
    );
    expect(best.results).toEqual([
      { index: 1, relevance_score: 1, document: { text: 'fox' } },
      { index: 0, relevance_score: -1, document: { text: 'x!', title: 'kept' } },
    ]);
    const all = await answerOf(
      await post(path, { ...foxes, top_n: 99, return_documents: null, rank_fields: ['text'] }),
    );
    expect(all.results.map(({ index }) => index)).toEqual(order);
    expect(all.results.some((result) => 'document' in result)).toBe(false);
  });

  test("Cohere's client, version 1 and 2", async () => {
    const { url } = await serve({ contextLength: 40 });
    const options = { token: 'none', environment: url, maxRetries: 0 };
    const first = await new CohereClient({ ...options, environment: `${url}/v1` }).rerank({
      ...foxes,
      documents: foxes.documents.map((text) => ({ text })),
      model: 'scripted',
      topN: 2,
      returnDocuments: true,
    });
    expect(first.results).toEqual([
      { index: 1, relevanceScore: sigmoid(1), document: { text: 'fox' } },
      { index: 0, relevanceScore: sigmoid(-1), document: { text: 'x!' } },
    ]);
    expect(first.meta?.apiVersion?.version).toBe('1');
    const client = new CohereClientV2(options);
    const second = await client.rerank({ ...foxes, model: 'scripted', topN: 1 });
    expect(second.results).toEqual([{ index: 1, relevanceScore: sigmoid(1) }]);
    expect(second.id).toMatch(/^rerank-/);
    expect(second.meta).toMatchObject({ apiVersion: { version: '2' }, tokens: { inputTokens: 21 } });
    // Its second version truncates.
    const long = await client.rerank({ query: 'fox', documents: ['x'.repeat(100)], model: 'scripted' });
    expect(long.meta?.warnings).toEqual(['1 document was truncated: 0.']);
    await expect(client.rerank({ ...foxes, model: 'absent' })).rejects.toMatchObject({
      statusCode: 404,
      body: { error: { code: 'model_not_found' } },
    });
  });

  test('texts of Text Embeddings Inference: the same scores, in an array', async () => {
    const { post } = await serve();
    const texts = foxes.documents;
    const ask = async (members: object) =>
      (await post('/rerank', { query: 'fox', texts, ...members })).json();
    expect(await ask({ raw_scores: false, return_text: false, truncation_direction: 'Right' })).toEqual(
      order.map((index, at) => ({ index, score: sigmoid(logits[at] as number) })),
    );
    expect(await ask({ raw_scores: true, return_text: true, top_n: 2 })).toEqual([
      { index: 1, score: 1, text: 'fox' },
      { index: 0, score: -1, text: 'x!' },
    ]);
    expect(await ask({ documents: ['fox'] })).toMatchObject({ results: [{ index: 0 }] });
    const refused = await post('/rerank', { query: 5, texts: ['a', 7] });
    const { violations } = await errorOf(refused);
    expect(violations?.map(({ path: member }) => member)).toEqual(['query', 'texts.1']);
    const neither = await errorOf(await post('/rerank', { query: 5 }));
    expect(neither.violations?.map(({ path: member }) => member)).toEqual(['query', 'documents']);
  });

  test('the order is that of the scores, and a permutation of the documents changes no score', async () => {
    const { post } = await serve();
    const texts = fc.array(fc.string({ maxLength: 12 }), { minLength: 1, maxLength: 30 });
    const shuffled = texts.chain((documents) =>
      fc.tuple(
        fc.constant(documents),
        fc.shuffledSubarray([...documents.keys()], { minLength: documents.length }),
      ),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.string({ minLength: 1, maxLength: 8 }),
        shuffled,
        async (query, [documents, by]) => {
          const scoresOf = async (asked: readonly string[]) => {
            const { results } = await answerOf(await post(path, { query, documents: asked }));
            const scores = results.map(({ relevance_score: score }) => score);
            expect(scores).toEqual(scores.toSorted((a, b) => b - a));
            expect(results.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual([...asked.keys()]);
            const ties = results.filter(({ relevance_score: score }, at) => score === scores[at + 1]);
            for (const { index } of ties) {
              const next = results[results.findIndex((result) => result.index === index) + 1];
              expect(next?.index).toBeGreaterThan(index);
            }
            return new Map(results.map(({ index, relevance_score: score }) => [index, score]));
          };
          const plain = await scoresOf(documents);
          const permuted = await scoresOf(by.map((index) => documents[index] as string));
          for (const [at, index] of by.entries()) expect(permuted.get(at)).toBe(plain.get(index));
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe('what is refused', () => {
  test('every violation of a body at once, with its path', async () => {
    const { post, engine } = await serve();
    const response = await post(path, {
      model: 7,
      query: '',
      documents: ['a', 5, { title: 'x' }, { text: 1 }],
      top_n: 0,
      top_k: 3,
      return_documents: 'yes',
      max_tokens_per_doc: 1.5,
      truncate: 'END',
      max_chunks_per_doc: 10,
      rank_fields: ['title'],
      instruction: 'be strict',
    });
    expect(response.status).toBe(400);
    const { violations } = (await errorOf(response)) as { violations?: { path: string }[] };
    expect(violations?.map((one) => one.path).toSorted()).toEqual([
      'documents.1',
      'documents.2.text',
      'documents.3.text',
      'instruction',
      'max_chunks_per_doc',
      'max_tokens_per_doc',
      'model',
      'query',
      'rank_fields',
      'return_documents',
      'top_k',
      'top_n',
      'truncate',
    ]);
    for (const documents of [undefined, null, 'a', [], {}, [null]])
      expect((await post(path, { query: 'a', documents })).status, JSON.stringify(documents)).toBe(400);
    expect(engine.rankRequests).toEqual([]);
  });

  test('more than 1000 documents, naming both numbers', async () => {
    const { post } = await serve();
    const many = Array.from({ length: 1000 }, () => 'a');
    expect((await answerOf(await post(path, { query: 'a', documents: many }))).results).toHaveLength(1000);
    const refused = await post(path, { query: 'a', documents: Array.from({ length: 10_000 }, () => 'a') });
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({
      param: 'documents',
      message: 'documents: at most 1000 documents, got 10000; send them in several requests.',
    });
  });

  test('a body over the limit', async () => {
    const { post } = await serve();
    const refused = await post(path, { query: 'a', documents: ['x'.repeat(33 << 20)] });
    expect(refused.status).toBe(413);
  });

  test('documents that are too long, naming the numbers and every document', async () => {
    const { post, engine } = await serve({ contextLength: 10 });
    const documents = ['a'.repeat(6), 'b'.repeat(7), 'c', 'd'.repeat(20)];
    const refused = await post(path, { query: 'fox', documents });
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({
      code: 'context_length_exceeded',
      param: 'documents.1',
      message:
        'A document may have up to 6 tokens beside this query (context 10, query 4), but documents.1 has 7 tokens, ' +
        'documents.3 has 20 tokens. Shorten them, or send `truncate` or `max_tokens_per_doc`.',
      violations: [
        { path: 'documents.1', message: 'has 7 tokens' },
        { path: 'documents.3', message: 'has 20 tokens' },
      ],
    });
    const larger = await serve({ contextLength: 400 });
    const huge = await larger.post(path, { query: 'fox', documents: ['a', 'b'.repeat(100_000)] });
    expect((await errorOf(huge)).message).toMatch(/documents\.1 has about \d{5,6} tokens/);
    const query = await post(path, { query: 'f'.repeat(9), documents: ['a'] });
    expect(await errorOf(query)).toMatchObject({
      code: 'context_length_exceeded',
      param: 'query',
      message: expect.stringContaining('holds 10 tokens, but the query with the tokens around it has 10'),
    });
    expect((await post(path, { query: 'f'.repeat(100_000), documents: ['a'] })).status).toBe(400);
    expect(engine.rankRequests).toEqual([]);
  });

  test.each([
    ['truncate', { truncate: true }, [6, 6, 1, 6], [1, 3]],
    ['max_tokens_per_doc', { max_tokens_per_doc: 3 }, [3, 3, 1, 3], [0, 1, 3]],
    ['max_tokens_per_doc beyond the context', { max_tokens_per_doc: 99 }, [6, 6, 1, 6], [1, 3]],
  ] as const)('%s truncates them, and a warning says which', async (_, members, lengths, truncated) => {
    const { post, engine } = await serve({ contextLength: 10 });
    const documents = ['a'.repeat(6), 'b'.repeat(7), 'c', 'd'.repeat(20)];
    const { meta } = await answerOf(await post(path, { query: 'fox', documents, ...members }));
    expect(engine.rankRequests[0]?.pairs.map(({ document }) => document.length)).toEqual(lengths);
    expect(meta.warnings).toEqual([`${truncated.length} documents were truncated: ${truncated.join(', ')}.`]);
    const refused = await post(path, { query: 'fox', documents, ...members, truncate: false });
    expect(refused.status).toBe(
      'max_tokens_per_doc' in members && members.max_tokens_per_doc === 3 ? 200 : 400,
    );
  });

  test('models that rank no documents, and text and embeddings of a model that does', async () => {
    const generating = await serve({ ranks: false });
    const refused = await generating.post(path, foxes);
    expect(refused.status).toBe(400);
    expect(await errorOf(refused)).toMatchObject({
      code: 'unsupported_capability',
      param: 'model',
      message: expect.stringMatching(/'scripted' generates text and ranks no documents; load a reranker/),
    });
    const embedding = await serve({ ranks: false, embeds: 8 });
    expect((await errorOf(await embedding.post(path, foxes))).message).toMatch(
      /makes embeddings and ranks no documents/,
    );
    const { post } = await serve();
    const messages = [{ role: 'user', content: 'hi' }];
    const others: [string, object][] = [
      ['/v1/chat/completions', { messages }],
      ['/v1/completions', { prompt: 'hi' }],
      ['/v1/responses', { input: 'hi' }],
      ['/v1/messages', { model: 'scripted', max_tokens: 5, messages }],
      ['/api/chat', { model: 'scripted', messages }],
      ['/api/generate', { model: 'scripted', prompt: 'hi' }],
      ['/completion', { prompt: 'hi' }],
    ];
    for (const [where, body] of others) {
      const response = await post(where, body);
      expect(response.status, where).toBe(400);
      expect(await response.text(), where).toMatch(
        /ranks documents and generates no text; use POST \/v1\/rerank/,
      );
    }
    for (const [where, body] of [
      ['/v1/embeddings', { input: 'a' }],
      ['/api/embed', { model: 'scripted', input: 'a' }],
      ['/embedding', { content: 'a' }],
    ] as const) {
      const response = await post(where, body);
      expect(response.status, where).toBe(400);
      expect(await response.text(), where).toMatch(/ranks documents and makes no embeddings/);
    }
  });

  test('a full queue, a lost device and a damaged model', async () => {
    for (const [code, status] of [
      ['queue_full', 429],
      ['device_lost', 503],
      ['broken_model', 500],
    ] as const) {
      const { post } = await serve({ fail: { after: 0, error: new EngineError(code, 'because') } });
      const response = await post(path, foxes);
      expect([response.status, (await errorOf(response)).code]).toEqual([status, code]);
    }
  });
});

describe('a request of many documents', () => {
  test('takes the memory of one query, however many documents it has', async () => {
    const { post, engine } = await serve();
    await answerOf(
      await post(path, { query: 'f'.repeat(4000), documents: Array.from({ length: 1000 }, () => 'a') }),
    );
    const { pairs } = engine.rankRequests[0] ?? { pairs: [] };
    expect(pairs).toHaveLength(1000);
    expect(new Set(pairs.map(({ before }) => before)).size).toBe(1);
    expect(new Set(pairs.map(({ after }) => after)).size).toBe(1);
  });

  /** Spaces have no tokens, as they have none for many models. */
  async function serveSpaces(contextLength: number) {
    const host = await serve({ contextLength });
    const { tokenizer } = host.engine;
    const encode = tokenizer.encode.bind(tokenizer);
    const spy = vi.spyOn(tokenizer, 'encode');
    spy.mockImplementation((text, options) => encode(text.replaceAll(' ', ''), options));
    return { ...host, encodedCharacters: () => spy.mock.calls.reduce((sum, [text]) => sum + text.length, 0) };
  }

  test('is scored by the tokens of its documents, however many characters have none', async () => {
    const { post, engine } = await serveSpaces(20);
    const documents = [`${' '.repeat(2000)}fox`, `${' '.repeat(5000)}foxes and foxes`, 'a'.repeat(5000)];
    const { results, meta } = await answerOf(
      await post('/v2/rerank', { query: 'fox', documents, raw_scores: true }),
    );
    expect(engine.rankRequests[0]?.pairs.map(({ document }) => document.length)).toEqual([3, 13, 16]);
    expect(meta.warnings).toEqual(['1 document was truncated: 2.']);
    const first = await answerOf(
      await post('/v1/rerank', { query: 'fox', documents: documents.slice(0, 2), raw_scores: true }),
    );
    expect(first.results).toEqual(results.slice(0, 2));
  });

  test('encodes documents that are truncated once, and little more of them than is read', async () => {
    const { post, encodedCharacters } = await serveSpaces(1000);
    const documents = Array.from({ length: 10 }, () => 'a'.repeat(200_000));
    await answerOf(await post('/v1/rerank', { query: 'fox', documents, max_tokens_per_doc: 100 }));
    expect(encodedCharacters()).toBeLessThan(10 * 200 * 16);
  });

  test('is refused with the numbers where a text has far more characters than tokens fit', async () => {
    const { post, engine, encodedCharacters } = await serveSpaces(10);
    const spaces = ' '.repeat(1_000_000);
    const query = await errorOf(await post(path, { query: spaces, documents: ['a'] }));
    expect(query).toMatchObject({
      code: 'context_length_exceeded',
      param: 'query',
      message: expect.stringMatching(
        /holds 10 tokens, but the query has 1000000 characters \(at most 2560 are read\)/,
      ),
    });
    for (const members of [{}, { truncate: true }]) {
      const documents = ['a', `${spaces}a`, 'b'.repeat(3000)];
      const refused = await errorOf(await post(path, { query: 'fox', documents, ...members }));
      expect(refused).toMatchObject({
        code: 'context_length_exceeded',
        param: 'documents.1',
        message: expect.stringContaining('documents.1 has 1000001 characters (at most 2560 are read)'),
      });
      expect(refused.message.includes('documents.2 has 3000 characters')).toBe(!('truncate' in members));
      expect(refused.message.includes('or send `truncate`')).toBe(!('truncate' in members));
    }
    expect(engine.rankRequests).toEqual([]);
    expect(encodedCharacters()).toBeLessThan(10_000);
  });

  test('is refused by a full queue before a text is encoded', async () => {
    const { post, engine } = await serve({ capacity: 1, hang: true });
    void engine.rank({ pairs: [] });
    const encode = vi.spyOn(engine.tokenizer, 'encode');
    const response = await post(path, foxes);
    expect([response.status, (await errorOf(response)).code]).toEqual([429, 'queue_full']);
    expect(response.headers.get('retry-after')).toBe('1');
    expect(encode).not.toHaveBeenCalled();
  });
});

describe('around the route', () => {
  test('a client that disconnects aborts its request', async () => {
    const { url, engine } = await serve({ delayMs: 60_000 });
    const abort = new AbortController();
    const request = fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(foxes),
      signal: abort.signal,
    });
    request.catch(() => undefined);
    await until(() => engine.rankRequests.length === 1);
    abort.abort();
    await until(() => engine.rankRequests[0]?.signal?.aborted === true);
  });

  test('the lists of models and the properties say that the model ranks', async () => {
    const { get } = await serve();
    const entry = modelEntry.strict().parse(await (await get('/v1/models/scripted')).json());
    expect(entry).toMatchObject({ kind: 'rerank', pooling: 'rank' });
    expect(entry.embedding_dimensions).toBeUndefined();
    expect(await (await get('/props')).json()).toMatchObject({ pooling_type: 'rank' });
  });

  test('the span of a request names the operation, the documents and the tokens, and transcripts have the texts', async () => {
    const { sink, spansOf } = createSpanRecorder(['completions']);
    const { post } = await serve({}, [sink]);
    await post(path, foxes);
    const [span] = spansOf('completion');
    expect(span?.attributes).toMatchObject({
      wire: 'rerank',
      operation: 'rerank',
      answers: 3,
      promptTokens: 21,
      model: 'scripted',
    });
    expect(span && transcriptLines(span)).toEqual(['user: fox', 'user: x!', 'user: fox', 'user: bird']);
  });
});
