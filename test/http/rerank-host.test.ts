/** Rerankers on the real host, from GGUF files and Hugging Face folders, with scores of transformers. */
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { CohereClientV2 } from 'cohere-ai';
import { beforeAll, describe, expect, test } from 'vitest';
import { rerankAnswer } from '../../src/wires/rerank/server-schema.ts';
import { buildHost, freshDataDir, type HostProcess, startHost } from '../support/host.ts';
import { rerankerOf, rerankers } from '../support/rerankers.ts';

let folder: string;
beforeAll(() => {
  buildHost();
  folder = freshDataDir();
  mkdirSync(join(folder, 'models'));
  for (const { name, path } of rerankers) cpSync(path('model.gguf'), join(folder, 'models', `${name}.gguf`));
});

const start = (...args: string[]): HostProcess =>
  startHost(['--gpu', '--port', '0', '--data-dir', folder, ...args]);

function clientOf(url: string) {
  return async (path: string, body: object) =>
    await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
}

/** Scores by document of a fixture's first query, as probabilities. */
function expectedOf(name: string) {
  const { pairs } = rerankerOf(name);
  const { query = '' } = pairs[0] ?? {};
  const asked = pairs.filter((pair) => pair.query === query);
  const documents = asked.map(({ document }) => document);
  return { query, documents, logits: asked.map(({ score }) => score) };
}

const worst = (got: readonly number[], expected: readonly number[]): number =>
  Math.max(...got.map((value, at) => Math.abs(value - (expected[at] as number))));

describe('a reranker on the real host', () => {
  test('GGUF files of each family give the scores of transformers, in any order of the documents', async () => {
    const host = start('--swap', '--model', 'bert-reranker');
    const url = await host.url();
    const post = clientOf(url);
    for (const { name } of rerankers) {
      const { query, documents, logits } = expectedOf(name);
      const rank = async (texts: readonly string[]) => {
        const response = await post('/rerank', { model: name, query, documents: texts, raw_scores: true });
        expect(response.status, host.output.stderr).toBe(200);
        const { results } = rerankAnswer.parse(await response.json());
        const scores = results.map(({ relevance_score: score }) => score);
        expect(scores).toEqual(scores.toSorted((a, b) => b - a));
        return results.toSorted((a, b) => a.index - b.index).map(({ relevance_score: score }) => score);
      };
      const scores = await rank(documents);
      expect(worst(scores, logits), name).toBeLessThan(5e-3);
      const reversed = await rank(documents.toReversed());
      expect(worst(reversed.toReversed(), scores), name).toBeLessThan(1e-4);
      const cohere = new CohereClientV2({ token: 'none', environment: url });
      const { results } = await cohere.rerank({ model: name, query, documents, topN: 3 });
      const best = [...documents.keys()].toSorted((a, b) => (scores[b] as number) - (scores[a] as number));
      expect(results.map(({ index }) => index)).toEqual(best.slice(0, 3));
      for (const { index, relevanceScore } of results)
        expect(relevanceScore).toBeCloseTo(1 / (1 + Math.exp(-(scores[index] as number))), 4);
      const show = await post('/api/show', { model: name });
      expect(await show.json()).toMatchObject({
        capabilities: ['rerank'],
        model_info: { 'lathe.pooling': 'rank' },
      });
    }
    const chat = await post('/v1/chat/completions', {
      model: 'xlm-roberta-reranker',
      messages: [{ role: 'user', content: 'hi' }],
    });
    expect([chat.status, await chat.text()]).toEqual([
      400,
      expect.stringContaining('ranks documents and generates no text'),
    ]);
    const refused = await post('/v1/rerank', { model: 'lathe-tiny', query: 'a', documents: ['b'] });
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('ranks no documents'),
    ]);
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('a Hugging Face folder gives the probabilities', async () => {
    const { path } = rerankerOf('bert-reranker');
    const host = start('--model', path('hf'));
    const url = await host.url();
    const post = clientOf(url);
    const { query, documents, logits } = expectedOf('bert-reranker');
    const response = await post('/v1/rerank', { query, documents });
    const { results } = rerankAnswer.parse(await response.json());
    const scores = results.toSorted((a, b) => a.index - b.index).map(({ relevance_score: score }) => score);
    expect(
      worst(
        scores,
        logits.map((logit) => 1 / (1 + Math.exp(-logit))),
      ),
    ).toBeLessThan(2e-3);
    host.kill('SIGTERM');
    expect(await host.exit).toEqual({ code: 0, signal: null });
  });

  test('it is no model for embeddings', async () => {
    const host = start('--embedding-model', 'bert-reranker');
    expect(await host.exit).toEqual({ code: 1, signal: null });
    expect(host.output.stderr).toMatch(/--embedding-model: .*ranks documents; name a model that only makes/);
  });
});
