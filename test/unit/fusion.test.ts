import { describe, expect, it } from 'vitest';
import { fuse, type FusionLimits, type Work } from '../../src/engine/fusion.ts';
import type { Graph } from '../../src/engine/graph.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { tinyModel, type TinyModel } from '../support/tiny-model.ts';

const graphOf = async (model: TinyModel): Promise<Graph> =>
  buildGraph(await openSource(memorySource(tinyModel(model))));

const everything: FusionLimits = { norms: true, rotation: true, headNorms: true, isWhole: () => true };
const nothing: FusionLimits = { norms: false, rotation: false, headNorms: false, isWhole: () => false };

/** Dispatches that one decoded token takes in a layer; attention's combine not counted. */
const decodedInLayer = (works: readonly Work[], layer: number) =>
  works.filter(({ unit, promptOnly }) => !promptOnly && unit.id.startsWith(`layers.${layer}.`));

describe('what a plan joins', () => {
  it.each(['llama', 'qwen2', 'qwen3'] as const)(
    '%s decodes in five dispatches a layer',
    async (architecture) => {
      const { units } = await graphOf({ architecture, layers: 3, biases: architecture === 'qwen2' });
      const works = fuse(units, everything);
      for (const layer of [0, 1, 2]) {
        expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
          'matmul',
          'attention',
          'matmul',
          'matmul',
          'matmul',
        ]);
      }
      const weights = works.map(({ gain }) => gain);
      expect(weights).toContain('blk.0.attn_norm.weight');
      expect(weights).toContain('blk.2.ffn_norm.weight');
      // The last norm is of the sampled rows only.
      expect(weights).not.toContain('output_norm.weight');
    },
  );

  it.each(['phi3', 'granite', 'smollm3'] as const)('%s does, too', async (architecture) => {
    const { units } = await graphOf({ architecture, layers: 4 });
    const works = fuse(units, everything);
    // Of smollm3 the last of them has no positions.
    for (const layer of [0, 3]) expect(decodedInLayer(works, layer)).toHaveLength(5);
  });

  it('gemma3 decodes in seven: who adds a norm computes the next one', async () => {
    const { units } = await graphOf({ architecture: 'gemma3', layers: 3, window: 16 });
    const works = fuse(units, everything);
    for (const layer of [0, 1, 2]) {
      expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
        'matmul',
        'attention',
        'matmul',
        'norm_add',
        'matmul',
        'matmul',
        'norm_add',
      ]);
    }
    const nexts = works.flatMap(({ next }) => next ?? []);
    expect(nexts).toEqual(
      [0, 1, 2].flatMap((n) => [
        `blk.${n}.ffn_norm.weight`,
        ...(n < 2 ? [`blk.${n + 1}.attn_norm.weight`] : []),
      ]),
    );
    expect(works.filter(({ gated }) => gated).map(({ gated }) => gated)).toEqual(Array(3).fill('gelu_tanh'));
  });

  it('every writer that prepares a norm is followed by a reader that expects it', async () => {
    const { units } = await graphOf({ architecture: 'qwen3', layers: 2 });
    const works = fuse(units, everything);
    works.forEach(({ gain }, index) => {
      const next = works[index + 1];
      expect(next?.normIn ?? false).toBe(gain !== undefined);
    });
  });

  it('nothing where the adapter cannot', async () => {
    const { units } = await graphOf({ architecture: 'qwen3', layers: 2 });
    expect(fuse(units, nothing)).toEqual(units.map((unit) => ({ unit })));
  });

  it('no activation or norm with a product in several pieces', async () => {
    const { units } = await graphOf({ architecture: 'llama', layers: 1 });
    const works = fuse(units, { ...everything, isWhole: () => false });
    const joined = works.filter(({ unit, gain, gated }) => unit.op === 'matmul' && (gain ?? gated));
    expect(joined).toEqual([]);
    // The embedding writes whole rows whatever its pieces.
    expect(works[0]?.gain).toBe('blk.0.attn_norm.weight');
  });

  it('no rotation with attention where there is no binding left for head norms', async () => {
    const limits = { ...everything, headNorms: false };
    const { units } = await graphOf({ architecture: 'qwen3', layers: 1 });
    expect(fuse(units, limits).some(({ rotates, promptOnly }) => rotates || promptOnly)).toBe(false);
    const plain = await graphOf({ architecture: 'llama', layers: 1 });
    expect(fuse(plain.units, limits).some(({ rotates }) => rotates)).toBe(true);
  });
});
