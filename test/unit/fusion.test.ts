import { describe, expect, it } from 'vitest';
import { bindUnits, type LabKernel, targetsOf } from '../../src/engine/graph/bindings.ts';
import { fuse, type FusionLimits, type FusedOp } from '../../src/engine/graph/fusion.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { tinyModel, type TinyModel } from '../support/tiny-model.ts';

const graphOf = async (model: TinyModel): Promise<Graph> =>
  buildGraph(await openSource(memorySource(tinyModel(model))));

const everything: FusionLimits = { norms: true, rotation: true, headNorms: true, isSinglePart: () => true };
const nothing: FusionLimits = { norms: false, rotation: false, headNorms: false, isSinglePart: () => false };

/** Dispatches of one layer for one decoded token, without attention's combine. */
const decodedInLayer = (works: readonly FusedOp[], layer: number) =>
  works.filter(({ unit, promptOnly }) => !promptOnly && unit.id.startsWith(`layers.${layer}.`));

describe('what a plan fuses', () => {
  it.each(['llama', 'qwen2', 'qwen3'] as const)(
    '%s decodes with five dispatches in a layer',
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
      const weights = works.map(({ nextNormWeight }) => nextNormWeight);
      expect(weights).toContain('blk.0.attn_norm.weight');
      expect(weights).toContain('blk.2.ffn_norm.weight');
      // The last norm covers only the sampled rows.
      expect(weights).not.toContain('output_norm.weight');
    },
  );

  it.each(['phi3', 'granite', 'smollm3'] as const)('%s does as well', async (architecture) => {
    const { units } = await graphOf({ architecture, layers: 4 });
    const works = fuse(units, everything);
    // The last layer of smollm3 has no rotary positions.
    for (const layer of [0, 3]) expect(decodedInLayer(works, layer)).toHaveLength(5);
  });

  it('lfm2 decodes with five dispatches, also in convolution layers', async () => {
    const { units } = await graphOf({ architecture: 'lfm2', layers: 4 });
    const works = fuse(units, everything);
    for (const layer of [0, 2])
      expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
        'matmul',
        'short_conv',
        'matmul',
        'matmul',
        'matmul',
      ]);
    for (const layer of [1, 3]) expect(decodedInLayer(works, layer)).toHaveLength(5);
  });

  it('qwen3.5 decodes with seven; both products of attention divide by the norm themselves', async () => {
    const { units } = await graphOf({ architecture: 'qwen35', layers: 4 });
    const works = fuse(units, everything);
    for (const layer of [0, 2])
      expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
        'matmul',
        'short_conv',
        'delta_net',
        'gated_norm',
        'matmul',
        'matmul',
        'matmul',
      ]);
    for (const layer of [1, 3]) {
      const own = decodedInLayer(works, layer);
      expect(own.map(({ unit }) => unit.op)).toEqual([
        'matmul',
        'matmul',
        'attention',
        'sigmoid_gate',
        'matmul',
        'matmul',
        'matmul',
      ]);
      expect(own.map(({ appliesInputNorm: normIn = false }) => normIn)).toEqual([
        true,
        true,
        false,
        false,
        false,
        true,
        false,
      ]);
    }
  });

  it('a norm is not fused when another product that reads it runs on a lab kernel', async () => {
    const graph = await graphOf({ architecture: 'qwen35', layers: 2 });
    const kernel = { contract: { op: 'matmul', tokens: 'any' } } as unknown as LabKernel;
    for (const target of ['attn.gate', 'attn.q', 'attn.k']) {
      const units = bindUnits(graph, [{ target: `layers.1.${target}`, kernel }], new Map());
      const works = fuse(units, everything);
      const norm = works.findIndex(({ unit }) => unit.id === 'layers.1.attn.norm');
      expect(works[norm]?.unit.op, target).toBe('rms_norm');
      const readers = works.slice(norm).filter(({ unit }) => unit.id.startsWith('layers.1.attn.'));
      expect(
        readers.some(({ appliesInputNorm: normIn }) => normIn),
        target,
      ).toBe(false);
    }
    // A span that includes the norm would leave no input for the other product.
    const spans = targetsOf(graph).flatMap(({ id, op }) => (op === 'norm_matmul' ? [id] : []));
    expect(spans).toContain('layers.0.delta.norm_in');
    expect(spans.filter((id) => id.startsWith('layers.1.attn'))).toEqual([]);
  });

  it('gemma3 decodes with seven: the kernel that adds a norm computes the next one', async () => {
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
    const nexts = works.flatMap(({ sumNormWeight: next }) => next ?? []);
    expect(nexts).toEqual(
      [0, 1, 2].flatMap((n) => [
        `blk.${n}.ffn_norm.weight`,
        ...(n < 2 ? [`blk.${n + 1}.attn_norm.weight`] : []),
      ]),
    );
    expect(works.filter(({ gated }) => gated).map(({ gated }) => gated)).toEqual(Array(3).fill('gelu_tanh'));
  });

  it('gemma4 decodes a layer with eleven, also without keys; the kernel that adds a norm scales the sum', async () => {
    const { units } = await buildGraph(await openSource(memorySource(tinyGemma4({}))));
    const works = fuse(units, everything);
    // There are six layers; the last three have no keys. Layer 0 begins with a norm that cannot be fused.
    for (const layer of [0, 2, 3, 5]) {
      expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
        ...(layer === 0 ? ['rms_norm'] : []),
        'matmul',
        'attention',
        'matmul',
        'norm_add',
        'matmul',
        'matmul',
        'norm_add',
        'matmul',
        'per_layer_gate',
        'matmul',
        'norm_add',
      ]);
    }
    const attentions = works.filter(({ unit }) => unit.op === 'attention');
    expect(attentions.map(({ appliesRope: rotates, writesCache: writes }) => [rotates, writes])).toEqual(
      [true, true, true, false, false, false].map((writes) => [true, writes]),
    );
    expect(attentions[2]?.headNorms).toEqual([
      'blk.2.attn_q_norm.weight',
      'blk.2.attn_k_norm.weight',
      'ones.64',
    ]);
    expect(attentions[3]?.headNorms).toEqual(['blk.3.attn_q_norm.weight']);
    // Layer 1 of this file is not scaled; after the others, the norm of the next layer is fused nevertheless.
    const ends = works.filter(({ unit }) => unit.id.endsWith('input.post_norm_add'));
    expect(ends.map(({ scale }) => scale && Math.round(scale * 100))).toEqual([
      60,
      undefined,
      74,
      81,
      88,
      95,
    ]);
    expect(ends.map(({ sumNormWeight: next }) => next)).toEqual([
      ...[1, 2, 3, 4, 5].map((n) => `blk.${n}.attn_norm.weight`),
      undefined,
    ]);
    // Without head norms in attention, neither they nor the rotation are fused.
    const apart = fuse(units, { ...everything, headNorms: false });
    expect(apart.filter(({ appliesRope: rotates }) => rotates)).toEqual([]);
  });

  it('heads with sinks are rotated in attention, unless they have head norms as well', async () => {
    const { units } = await graphOf({ architecture: 'gpt-oss', layers: 2 });
    const rotating = (list: typeof units) =>
      fuse(list, everything).filter(({ appliesRope: rotates }) => rotates).length;
    expect(rotating(units)).toBe(2);
    const normed = await graphOf({ architecture: 'qwen3', layers: 2 });
    const sinks = normed.units.map((unit) => (unit.op === 'attention' ? { ...unit, sinks: 'sinks' } : unit));
    expect([rotating(normed.units), rotating(sinks)]).toEqual([2, 0]);
  });

  it.each(['qwen3moe', 'gpt-oss'] as const)(
    '%s decodes an expert layer with ten dispatches: its norm is read by more than the router',
    async (architecture) => {
      const { units } = await graphOf({ architecture, layers: 3 });
      const works = fuse(units, everything);
      for (const layer of [0, 1, 2]) {
        expect(decodedInLayer(works, layer).map(({ unit }) => unit.op)).toEqual([
          ...(layer === 0 ? [] : ['rms_norm']),
          'matmul',
          'attention',
          'matmul',
          'rms_norm',
          'matmul',
          'route',
          'expert_matmul',
          'expert_matmul',
          'expert_matmul',
          'expert_sum',
        ]);
      }
    },
  );

  it('every op that prepares a norm is followed by one that expects it', async () => {
    const { units } = await graphOf({ architecture: 'qwen3', layers: 2 });
    const works = fuse(units, everything);
    works.forEach(({ nextNormWeight }, index) => {
      const next = works[index + 1];
      expect(next?.appliesInputNorm ?? false).toBe(nextNormWeight !== undefined);
    });
  });

  it('nothing is fused that the adapter does not support', async () => {
    const { units } = await graphOf({ architecture: 'qwen3', layers: 2 });
    expect(fuse(units, nothing)).toEqual(units.map((unit) => ({ unit })));
  });

  it('an activation or norm is not fused with a product in several parts', async () => {
    const { units } = await graphOf({ architecture: 'llama', layers: 1 });
    const works = fuse(units, { ...everything, isSinglePart: () => false });
    const joined = works.filter(
      ({ unit, nextNormWeight, gated }) => unit.op === 'matmul' && (nextNormWeight ?? gated),
    );
    expect(joined).toEqual([]);
    // The embedding writes whole rows regardless of its parts.
    expect(works[0]?.nextNormWeight).toBe('blk.0.attn_norm.weight');
  });

  it('rotation is not fused with attention when no binding is left for head norms', async () => {
    const limits = { ...everything, headNorms: false };
    const { units } = await graphOf({ architecture: 'qwen3', layers: 1 });
    expect(fuse(units, limits).some(({ appliesRope: rotates, promptOnly }) => rotates || promptOnly)).toBe(
      false,
    );
    const plain = await graphOf({ architecture: 'llama', layers: 1 });
    expect(fuse(plain.units, limits).some(({ appliesRope: rotates }) => rotates)).toBe(true);
  });
});
