/** What an architecture makes of a file's metadata and tensor names; what it computes is in test/golden. */
import { describe, expect, it } from 'vitest';
import type { MetadataScalar, ModelFile } from '../../src/engine/formats/model-file.ts';
import type { Graph, Unit } from '../../src/engine/graph.ts';
import { architectures, buildGraph } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';

const fileOf = (model: TinyModel): Promise<ModelFile> => openSource(memorySource(tinyModel(model)));

/** A file with other metadata, and without some tensors. */
function changed(
  file: ModelFile,
  members: Readonly<Record<string, MetadataScalar | boolean[]>>,
  without = '',
): ModelFile {
  const prefix = String(file.metadata.get('general.architecture'));
  const metadata = new Map(file.metadata as Map<string, MetadataScalar>);
  for (const [key, value] of Object.entries(members))
    metadata.set(`${prefix}.${key}`, value as MetadataScalar);
  const tensors = new Map([...file.tensors].filter(([name]) => name !== without));
  return {
    ...file,
    name: 'a file',
    metadata,
    tensors,
    readRows: file.readRows.bind(file),
  };
}

type Attention = Extract<Unit, { op: 'attention' }>;
const attentions = ({ units }: Graph): Attention[] =>
  units.flatMap((unit) => (unit.op === 'attention' ? [unit] : []));
const layersOf = (graph: Graph) => attentions(graph).map(({ rope, window }) => ({ rope, window }));
const all = { rope: 0, window: 0 };

describe('rotation, window and scale of the layers', () => {
  it('llama: all alike; a window where the file has one', async () => {
    const file = await fileOf({ architecture: 'llama', layers: 2 });
    expect(layersOf(await buildGraph(file))).toEqual([all, all]);
    const windowed = await buildGraph(changed(file, { 'attention.sliding_window': 40 }));
    expect(layersOf(windowed)).toEqual([40, 40].map((window) => ({ rope: 0, window })));
    expect(attentions(windowed)[0]?.scale).toBe(1 / 8);
  });

  it('gemma3: every sixth layer sees everything, by the rotation of the main keys', async () => {
    const file = await fileOf({ architecture: 'gemma3', layers: 7, window: 16, ropeScale: 8 });
    const local = { rope: 1, window: 16 };
    const usual = [local, local, local, local, local, all, local];
    expect(layersOf(await buildGraph(changed(file, { 'attention.sliding_window_pattern': 6 })))).toEqual(
      usual,
    );
    // A file that says nothing means the same, and a list says it for each layer.
    const silent = new Map(file.metadata);
    silent.delete('gemma3.attention.sliding_window_pattern');
    const graph = await buildGraph({ ...changed(file, {}), metadata: silent });
    expect(layersOf(graph)).toEqual(usual);
    const listed = { 'attention.sliding_window_pattern': [false, true, true, false, false, true, false] };
    const wide = [all, local, local, all, all, local, all];
    expect(layersOf(await buildGraph(changed(file, listed)))).toEqual(wide);
    expect(graph.shape.ropes).toMatchObject([
      { theta: 10000, scale: 8 },
      { theta: 500, scale: 1 },
    ]);
    expect(graph.shape.embeddingScale).toBe(8);
    expect(graph.shape.sandwich).toBe(true);
  });

  it('gemma3: scores by the head dimension, by the file, or as the size of 62 layers has it', async () => {
    const file = await fileOf({
      architecture: 'gemma3',
      layers: 62,
      width: 32,
      heads: 1,
      kvHeads: 1,
      window: 4,
    });
    const scaleOf = async (one: ModelFile) => attentions(await buildGraph(one))[0]?.scale;
    expect(await scaleOf(file)).toBeCloseTo(32 ** -0.5, 12);
    expect(await scaleOf(changed(file, { 'attention.scale': 0.3 }))).toBe(0.3);
    expect(await scaleOf(await fileOf({ architecture: 'gemma3', window: 4 }))).toBe(64 ** -0.5);
  });

  it('smollm3: positions turn nothing in every fourth layer, or where the file says so', async () => {
    const file = await fileOf({ architecture: 'smollm3', layers: 5 });
    const none = { rope: undefined, window: 0 };
    expect(layersOf(await buildGraph(file))).toEqual([all, all, all, none, all]);
    const listed = changed(file, { 'attention.rope_pattern': [true, false, true, true, false] });
    expect(layersOf(await buildGraph(listed))).toEqual([all, none, all, all, none]);
  });

  it('granite: its scales, of which 0 or nothing means none', async () => {
    const file = await fileOf({ architecture: 'granite' });
    const scales = ({ units }: Graph) =>
      units.flatMap((unit) => (unit.op === 'matmul' && (unit.add || unit.sampled) ? [unit.scale] : []));
    const graph = await buildGraph(file);
    expect(scales(graph)).toEqual([0.4, 0.4, 0.4, 0.4].map((one) => expect.closeTo(one, 6)).concat([0.25]));
    expect(graph.shape.embeddingScale).toBe(3);
    expect(attentions(graph)[0]?.scale).toBeCloseTo(0.06, 6);
    const zeros = { residual_scale: 0, embedding_scale: 0, logit_scale: 0, 'attention.scale': 0 };
    const plain = await buildGraph(changed(file, zeros));
    expect([...scales(plain), plain.shape.embeddingScale]).toEqual(Array(6).fill(1));
    expect(attentions(plain)[0]?.scale).toBe(1 / 8);
    const still = await buildGraph(changed(file, { 'rope.scaling.finetuned': false }));
    expect(attentions(still)[0]?.rope).toBeUndefined();
  });

  it('phi3: one matrix of q, k and v, and one of gate and up, under the names of their parts', async () => {
    const { units } = await buildGraph(await fileOf({ architecture: 'phi3', layers: 1 }));
    const products = units.flatMap((unit) => (unit.op === 'matmul' ? [unit] : []));
    expect(products[0]?.weights).toEqual(['blk.0.attn_qkv.weight']);
    expect(products[0]?.nodes.map(({ slot, width }) => [slot, width])).toEqual([
      ['attn.q', 256],
      ['attn.k', 128],
      ['attn.v', 128],
    ]);
    expect(products[2]?.weights).toEqual(['blk.0.ffn_up.weight']);
    expect(products[2]?.nodes.map(({ slot }) => slot)).toEqual(['ffn.gate', 'ffn.up']);
  });

  it('biases count wherever the file has them', async () => {
    const { units } = await buildGraph(await fileOf({ architecture: 'llama', layers: 1, biases: true }));
    const [qkv] = units.flatMap((unit) => (unit.op === 'matmul' ? [unit] : []));
    expect(qkv?.biases).toEqual(['q', 'k', 'v'].map((part) => `blk.0.attn_${part}.bias`));
  });
});

describe('a file that cannot be used', () => {
  it.each([
    ['qwen3', 'blk.1.attn_q_norm.weight'],
    ['gemma3', 'blk.0.post_attention_norm.weight'],
    ['gemma3', 'blk.1.post_ffw_norm.weight'],
    ['granite', 'blk.0.ffn_gate.weight'],
    ['phi3', 'blk.0.ffn_down.weight'],
  ] as const)('%s without %s says so', async (architecture, tensor) => {
    const file = changed(await fileOf({ architecture, window: 8 }), {}, tensor);
    await expect(buildGraph(file)).rejects.toThrow(`a file: tensor '${tensor}' is missing`);
  });

  it('a pattern that is shorter than the model', async () => {
    const file = await fileOf({ architecture: 'gemma3', window: 8 });
    const short = changed(file, { 'attention.sliding_window_pattern': [true] });
    await expect(buildGraph(short)).rejects.toThrow('must hold a value for each of 2 layers, got 1');
  });

  it('soft-capped logits, which would be wrong and not refused', async () => {
    const file = changed(await fileOf({ architecture: 'gemma3', window: 8 }), {
      final_logit_softcapping: 30,
    });
    await expect(buildGraph(file)).rejects.toThrow('gemma3.final_logit_softcapping');
  });

  it('an architecture that nobody knows names those that are', async () => {
    const file = await fileOf({ architecture: 'llama' });
    const other = { ...changed(file, {}), metadata: new Map([['general.architecture', 'mamba']]) };
    await expect(buildGraph(other)).rejects.toThrow(
      `unknown architecture 'mamba' (supported: ${Object.keys(architectures).join(', ')})`,
    );
  });
});
