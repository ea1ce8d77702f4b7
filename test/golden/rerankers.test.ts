/** Models that rank documents, compared with Hugging Face transformers: tokens and scores of pairs, from both formats. */
import { describe, expect, it } from 'vitest';
import { pipelineDepth } from '../../src/engine/execution/runner.ts';
import { loadEngine, type ResidentEngine } from '../../src/engine/index.ts';
import type { EngineOptions } from '../../src/engine/types.ts';
import { createPair, joinPair } from '../../src/engine/ranking/pair-encoder.ts';
import { exactOn, platforms } from '../support/architectures.ts';
import { type RerankerFixture, rerankers, type ScoredPair } from '../support/rerankers.ts';
import { runsRest } from '../support/tier.ts';

async function using(
  { path, context }: RerankerFixture,
  file: 'model.gguf' | 'hf',
  work: (engine: ResidentEngine) => Promise<void>,
  {
    on = 'software',
    ...options
  }: Pick<EngineOptions, 'quantize' | 'verify'> & { on?: 'software' | 'hardware' } = {},
): Promise<void> {
  const engine = await loadEngine(platforms[on], {
    model: path(file),
    context,
    exact: exactOn(on),
    ...options,
  });
  try {
    await work(engine);
  } finally {
    await engine.close();
  }
}

const encode = ({ pairEncoder }: ResidentEngine, pairs: readonly ScoredPair[]) =>
  pairs.map(({ query, document }) => {
    if (!pairEncoder) throw new Error('the model does not rank');
    return createPair(pairEncoder.encodeQuery(query), pairEncoder.encodeDocument(document));
  });

const largestDifference = (got: readonly number[], expected: readonly number[]): number =>
  Math.max(...got.map((score, at) => Math.abs(score - (expected[at] as number))));

/**
 * Largest differences of a logit from those of transformers in float32: with everything in 32 bits, and with keys and
 * values in 16 bits, as in the engine's cache. The kernels for GPUs round more.
 */
const bounds = {
  software: { exact: 5e-3, rounded: 2e-4 },
  hardware: { exact: 4e-2, rounded: 4e-2 },
} as const;

describe.each(rerankers.map((fixture) => [fixture.name, fixture] as const))('%s', (_name, fixture) => {
  const expectScores = (got: readonly number[], on: keyof typeof bounds = 'software') => {
    const exact = fixture.pairs.map(({ score }) => score);
    const rounded = fixture.pairs.map((pair) => pair.rounded);
    expect(largestDifference(got, exact)).toBeLessThan(bounds[on].exact);
    expect(largestDifference(got, rounded)).toBeLessThan(bounds[on].rounded);
  };

  it.each(['model.gguf', 'hf'] as const)('gives the tokens and the scores of transformers (%s)', (file) =>
    using(fixture, file, async (engine) => {
      expect(engine.model).toMatchObject({ kind: 'rerank', pooling: 'rank' });
      const pairs = encode(engine, fixture.pairs);
      expect(pairs.map(joinPair)).toEqual(fixture.pairs.map(({ ids }) => ids));
      const { scores, promptTokens } = await engine.rank({ pairs });
      expect(promptTokens).toBe(fixture.pairs.reduce((sum, { ids }) => sum + ids.length, 0));
      expectScores(scores);
      // Each alone, and all in another order.
      const alone: number[] = [];
      for (const pair of pairs) alone.push(...(await engine.rank({ pairs: [pair] })).scores);
      expectScores(alone);
      const reversed = await engine.rank({ pairs: pairs.toReversed() });
      expect(largestDifference(reversed.scores.toReversed(), scores)).toBeLessThan(1e-5);
      await expect(engine.embed({ inputs: [[5]] })).rejects.toThrow(
        'ranks documents and makes no embeddings',
      );
    }),
  );

  it.runIf(runsRest)('gives the scores of transformers on the kernels for GPUs', () =>
    using(
      fixture,
      'model.gguf',
      async (engine) => {
        const { scores } = await engine.rank({ pairs: encode(engine, fixture.pairs) });
        expectScores(scores, 'hardware');
      },
      { on: 'hardware' },
    ),
  );

  it.each(['Q8_0', 'Q4_0'] as const)('gives the scores of transformers quantized to %s', (quantize) =>
    using(
      fixture,
      'model.gguf',
      async (engine) => {
        const { scores } = await engine.rank({ pairs: encode(engine, fixture.pairs) });
        const expected = fixture.pairs.map((pair) => pair[quantize]);
        expect(largestDifference(scores, expected)).toBeLessThan(bounds.software.rounded);
      },
      { quantize },
    ),
  );

  it('has kernels that equal the oracles, those of two segments included', () =>
    using(fixture, 'model.gguf', async (engine) => expect(engine.replacedKernels).toEqual([]), {
      verify: 'full',
    }));

  it('computes no further step for a request that was aborted', () =>
    using(fixture, 'model.gguf', async (engine) => {
      const { runner } = engine;
      const embed = runner.embed.bind(runner);
      const abort = new AbortController();
      let steps = 0;
      let onStep = () => {};
      runner.embed = (step) => {
        steps += 1;
        onStep();
        return embed(step);
      };
      const pairs = encode(engine, fixture.pairs);
      await engine.rank({ pairs });
      const all = steps;
      expect(all).toBeGreaterThan(2 * pipelineDepth + 1);
      steps = 0;
      onStep = () => abort.abort(new Error('gone'));
      await expect(engine.rank({ pairs, signal: abort.signal })).rejects.toThrow('gone');
      expect(await engine.rank({ pairs: pairs.slice(0, 1) })).toMatchObject({ scores: [expect.any(Number)] });
      // Those of the last request are a few.
      expect(steps).toBeLessThan(all);
    }));
});
