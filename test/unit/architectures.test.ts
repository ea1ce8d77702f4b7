/** The graphs that architectures build from metadata and tensor names; their computation is tested in test/golden. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type MetadataScalar, type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import type { Unit } from '../../src/engine/ops/index.ts';
import { architectures, buildGraph } from '../../src/engine/models/registry.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { fixtureNames } from '../support/fixture-names.ts';
import { tinyGemma4 } from '../support/tiny-gemma4.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';

const fileOf = (model: TinyModel): Promise<ModelFile> => openSource(memorySource(tinyModel(model)));

const fixtureOf = (name: string): Promise<ModelFile> => {
  const path = new URL(`../fixtures/architectures/${name}/model.gguf`, import.meta.url);
  return openSource(memorySource(new Uint8Array(readFileSync(path))));
};

/** A file with changed metadata and without some tensors. */
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
  it('llama: all layers alike; a window if the file has one', async () => {
    const file = await fileOf({ architecture: 'llama', layers: 2 });
    expect(layersOf(await buildGraph(file))).toEqual([all, all]);
    const windowed = await buildGraph(changed(file, { 'attention.sliding_window': 40 }));
    expect(layersOf(windowed)).toEqual([40, 40].map((window) => ({ rope: 0, window })));
    expect(attentions(windowed)[0]?.scale).toBe(1 / 8);
  });

  it('gemma3: every sixth layer has full attention with the main rotation', async () => {
    const file = await fileOf({ architecture: 'gemma3', layers: 7, window: 16, ropeScale: 8 });
    const local = { rope: 1, window: 16 };
    const usual = [local, local, local, local, local, all, local];
    expect(layersOf(await buildGraph(changed(file, { 'attention.sliding_window_pattern': 6 })))).toEqual(
      usual,
    );
    // A file without the key means the same, and a list sets it for each layer.
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
    expect(graph.shape.hasSandwichNorms).toBe(true);
  });

  it('gemma3: attention scale from the head dimension, from the file, or that of the model with 62 layers', async () => {
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

  it('smollm3: no rotary positions in every fourth layer, or where the file says so', async () => {
    const file = await fileOf({ architecture: 'smollm3', layers: 5 });
    const none = { rope: undefined, window: 0 };
    expect(layersOf(await buildGraph(file))).toEqual([all, all, all, none, all]);
    const listed = changed(file, { 'attention.rope_pattern': [true, false, true, true, false] });
    expect(layersOf(await buildGraph(listed))).toEqual([all, none, all, all, none]);
  });

  it('granite: its scales; 0 or a missing key means none', async () => {
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

  it('gpt-oss: a sliding window in every other layer from the first; attention sinks; YaRN without truncation', async () => {
    const file = await fileOf({ architecture: 'gpt-oss', layers: 3, window: 24 });
    const graph = await buildGraph(file);
    expect(layersOf(graph)).toEqual([{ rope: 0, window: 24 }, all, { rope: 0, window: 24 }]);
    expect(attentions(graph).map(({ sinks }) => sinks)).toEqual(
      [0, 1, 2].map((n) => `blk.${n}.attn_sinks.weight`),
    );
    const yarn = {
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': 32,
      'rope.scaling.original_context_length': 4096,
    };
    const ropeOf = async (more: Record<string, boolean>) =>
      (await buildGraph(changed(file, { ...yarn, ...more }))).shape.ropes[0]?.factors;
    const silent = await ropeOf({});
    expect(silent).toEqual(await ropeOf({ 'rope.scaling.yarn_truncate': false }));
    expect(silent).not.toEqual(await ropeOf({ 'rope.scaling.yarn_truncate': true }));
  });

  it('biases are added wherever the file has them', async () => {
    const { units } = await buildGraph(await fileOf({ architecture: 'llama', layers: 1, biases: true }));
    const [qkv] = units.flatMap((unit) => (unit.op === 'matmul' ? [unit] : []));
    expect(qkv?.biases).toEqual(['q', 'k', 'v'].map((part) => `blk.0.attn_${part}.bias`));
  });
});

describe('mixture-of-experts feed-forwards', () => {
  const expertsOf = ({ units }: Graph, layer: number) =>
    units.filter(({ id, op }) => id.startsWith(`layers.${layer}.ffn.`) && op !== 'rms_norm');

  it('qwen3moe: in layers with a router; shares are normalized over the selected experts unless the file says otherwise', async () => {
    const experts = { count: 9, used: 4, feedForward: 32, dense: [1] };
    const file = await fileOf({ architecture: 'qwen3moe', layers: 3, experts });
    const graph = await buildGraph(file);
    expect(graph.shape.experts).toEqual({ count: 9, used: 4, feedForward: 32 });
    const [route] = expertsOf(graph, 0).slice(1);
    expect(route).toMatchObject({ op: 'route', shares: 'of_all_normalised', scale: 1 });
    expect(expertsOf(graph, 2).map(({ op }) => op)).toEqual([
      'matmul',
      'route',
      'expert_matmul',
      'expert_matmul',
      'expert_matmul',
      'expert_sum',
    ]);
    expect(expertsOf(graph, 1).map(({ op }) => op)).toEqual(['matmul', 'gated_activation', 'matmul']);
    expect(graph.shape.feedForward).toBe(96);
    // Without dense layers, no memory is reserved for them.
    const alike = await fileOf({ architecture: 'qwen3moe', feedForward: 4096 });
    expect((await buildGraph(alike)).shape.feedForward).toBe(0);
    const plain = await buildGraph(changed(file, { expert_weights_norm: false }));
    expect(expertsOf(plain, 0)[1]).toMatchObject({ shares: 'of_all' });
  });

  it('gpt-oss: biases everywhere, its own activation, a norm with another name', async () => {
    const graph = await buildGraph(await fileOf({ architecture: 'gpt-oss', layers: 2 }));
    const products = expertsOf(graph, 1).flatMap((unit) => (unit.op === 'expert_matmul' ? [unit] : []));
    expect(products.map(({ role, weight, bias, activation }) => [role, weight, bias, activation])).toEqual(
      ['gate', 'up', 'down'].map((role) => [
        role,
        `blk.1.ffn_${role}_exps.weight`,
        `blk.1.ffn_${role}_exps.bias`,
        'swiglu_oai',
      ]),
    );
    expect(expertsOf(graph, 1)[1]).toMatchObject({ shares: 'of_chosen' });
    expect(graph.units.find(({ id }) => id === 'layers.1.ffn.norm')).toMatchObject({
      weight: 'blk.1.post_attention_norm.weight',
    });
  });

  it.each([
    ['expert_count', 0, 'must be a whole number from 1 to 512'],
    ['expert_count', 513, 'from 1 to 512'],
    ['expert_count', 2.5, 'from 1 to 512'],
    ['expert_used_count', 0, 'must be a whole number from 1 to 6 (the number of experts), got 0'],
    ['expert_used_count', 7, 'from 1 to 6 (the number of experts), got 7'],
    ['expert_feed_forward_length', 0, 'must be a whole number from 1'],
    ['expert_feed_forward_length', 40, 'must be a multiple of 32, got 40'],
    ['expert_shared_count', 1, 'experts that all tokens share'],
    ['expert_shared_feed_forward_length', 64, 'experts that all tokens share'],
    ['expert_group_count', 4, 'groups of experts'],
    ['expert_gating_func', 2, 'routers other than softmax'],
  ])('%s of %s is rejected, naming the key', async (key, value, message) => {
    const file = await fileOf({ architecture: 'qwen3moe' });
    const building = buildGraph(changed(file, { [key]: value }));
    await expect(building).rejects.toThrow(ModelFileError);
    await expect(building).rejects.toThrow(`qwen3moe.${key}'`);
    await expect(building).rejects.toThrow(message);
  });

  it('so is an expert count that the tensors do not have, or a missing key', async () => {
    const file = await fileOf({ architecture: 'qwen3moe' });
    await expect(buildGraph(changed(file, { expert_count: 8 }))).rejects.toThrow(
      "tensor 'blk.0.ffn_gate_exps.weight' must be [8, 64, 64], got [6, 64, 64]",
    );
    const metadata = new Map(file.metadata);
    metadata.delete('qwen3moe.expert_used_count');
    await expect(buildGraph({ ...changed(file, {}), metadata })).rejects.toThrow(
      "metadata 'qwen3moe.expert_used_count' must be a number, got nothing",
    );
  });
});

describe('an unusable file', () => {
  it.each([
    ['qwen3', 'blk.1.attn_q_norm.weight'],
    ['gemma3', 'blk.0.post_attention_norm.weight'],
    ['gemma3', 'blk.1.post_ffw_norm.weight'],
    ['granite', 'blk.0.ffn_gate.weight'],
    ['phi3', 'blk.0.ffn_down.weight'],
    ['qwen3moe', 'blk.1.ffn_gate_inp.weight'],
    ['qwen3moe', 'blk.0.ffn_down_exps.weight'],
    ['gpt-oss', 'blk.1.attn_sinks.weight'],
    ['gpt-oss', 'blk.1.ffn_up_exps.bias'],
  ] as const)('%s without %s is rejected, naming the tensor', async (architecture, tensor) => {
    const file = changed(await fileOf({ architecture, window: 8 }), {}, tensor);
    await expect(buildGraph(file)).rejects.toThrow(`a file: tensor '${tensor}' is missing`);
  });

  it('a pattern that is shorter than the number of layers is rejected', async () => {
    const file = await fileOf({ architecture: 'gemma3', window: 8 });
    const short = changed(file, { 'attention.sliding_window_pattern': [true] });
    await expect(buildGraph(short)).rejects.toThrow('must hold a value for each of 2 layers, got 1');
  });

  const withoutExperts = fixtureNames.filter((name) => !/^(gpt-oss|qwen3moe)/.test(name));
  it.each(withoutExperts)('%s with experts is rejected for them, not for a missing tensor', async (name) => {
    const file = await fixtureOf(name);
    const architecture = String(file.metadata.get('general.architecture'));
    const build = (count: number) => buildGraph(changed(file, { expert_count: count }));
    await expect(build(8)).rejects.toThrow(
      `a file: experts are not supported for ${architecture}; supported for gpt-oss, qwen3moe ` +
        `(metadata '${architecture}.expert_count' is 8)`,
    );
    await build(0);
  });

  it.each<[string, string, MetadataScalar]>([
    ['gemma3', 'final_logit_softcapping', 30],
    ['llama', 'attn_logit_softcapping', 50],
    ['llama', 'logit_scale', 0.5],
    ['llama', 'embedding_scale', 12],
    ['qwen2', 'residual_scale', 0.22],
    ['llama', 'attention.scale', 0.015],
    ['gemma4', 'attention.scale', 0.5],
    ['qwen3', 'attention.value_length', 8],
    ['llama', 'attention.clamp_kqv', 8],
    ['bert', 'attention.max_alibi_bias', 8],
    ['llama', 'attention.temperature_scale', 0.1],
    ['llama', 'use_parallel_residual', true],
    ['qwen3moe', 'nextn_predict_layers', 1],
    ['llama', 'attention.shared_kv_layers', 1],
    ['gemma3', 'embedding_length_per_layer_input', 32],
    ['llama', 'attention.causal', false],
    ['gemma4', 'attention.causal', false],
    ['gemma4', 'pooling_type', 1],
    ['lfm2', 'attention.sliding_window', 8],
  ])(
    '%s whose %s is %o, which its graph does not implement, is rejected, naming the key',
    async (name, key, value) => {
      const building = buildGraph(changed(await fixtureOf(name), { [key]: value }));
      await expect(building).rejects.toThrow(ModelFileError);
      await expect(building).rejects.toThrow(`are not supported for ${name}`);
      await expect(building).rejects.toThrow(`(metadata '${name}.${key}' is ${String(value)})`);
    },
  );

  it('values without effect are accepted', async () => {
    const usual = { 'attention.scale': 0, logit_scale: 1, embedding_scale: 0, 'attention.causal': true };
    await buildGraph(changed(await fixtureOf('llama'), usual));
    await buildGraph(changed(await fixtureOf('qwen3-embedding'), { 'attention.causal': false }));
  });

  it('an unknown architecture is rejected, with a list of known ones', async () => {
    const file = await fileOf({ architecture: 'llama' });
    const other = { ...changed(file, {}), metadata: new Map([['general.architecture', 'mamba']]) };
    await expect(buildGraph(other)).rejects.toThrow(
      `unknown architecture 'mamba' (supported: ${Object.keys(architectures).join(', ')})`,
    );
  });
});

describe('gemma4', () => {
  const open = (shape: Parameters<typeof tinyGemma4>[0] = {}) => openSource(memorySource(tinyGemma4(shape)));

  it('sizes, rotation, window and the source of keys of each layer', async () => {
    const graph = await buildGraph(await open());
    const near = { rope: 1, window: 20, scale: 1 };
    const far = { rope: 0, window: 0, scale: 1 };
    expect(attentions(graph)).toMatchObject(
      [near, near, far, near, near, far].map((one, n) => ({ ...one, cache: [0, 1, 2, 1, 1, 2][n] })),
    );
    expect(graph.shape.caches).toEqual(
      [32, 32, 64].map((headDim) => ({ kind: 'pages', kvHeads: 2, headDim })),
    );
    expect(graph.shape.perLayer?.map(({ headDim, feedForward }) => [headDim, feedForward])).toEqual([
      [32, 96],
      [32, 96],
      [64, 96],
      [32, 160],
      [32, 160],
      [64, 160],
    ]);
    expect(graph.shape.ropes).toMatchObject([
      { theta: 10000, rotary: 64 },
      { theta: 500, rotary: 32 },
    ]);
    expect(Array.from(graph.shape.ropes[0]?.factors ?? [])).toEqual([
      ...Array<number>(16).fill(1),
      ...Array<number>(16).fill(Math.fround(1e30)),
    ]);
    // Layers that share keys do not write any.
    const writes = graph.units.flatMap((unit) => (unit.op === 'rope_kv_write' ? [unit.cache] : []));
    expect(writes).toEqual([0, 1, 2, undefined, undefined, undefined]);
  });

  it('values are the keys when there is no matrix for values', async () => {
    const graph = await buildGraph(await open({ shared: 0, keysAreValues: 1 }));
    const products = graph.units.flatMap((unit) =>
      unit.op === 'matmul' && unit.to === 'qkv' ? [unit.weights] : [],
    );
    expect(products[2]).toEqual(['q', 'k', 'k'].map((part) => `blk.2.attn_${part}.weight`));
    expect(products[1]).toEqual(['q', 'k', 'v'].map((part) => `blk.1.attn_${part}.weight`));
    expect(graph.shape.perLayer?.[2]?.kvHeads).toBe(1);
  });

  it.each([
    ['experts', { expert_count: 128 }, '', /experts are not supported for gemma4/],
    [
      'more shared layers than layers',
      { 'attention.shared_kv_layers': 6 },
      '',
      /shared_kv_layers' must be a whole number from 0 to 5, got 6/,
    ],
    [
      'no layer to share with',
      { 'attention.shared_kv_layers': 4 },
      '',
      /layer 2 shares keys and values .* no layer before 2 has the same/,
    ],
    ['an odd input', { embedding_length_per_layer_input: 40 }, '', /multiple of 32, got 40/],
    ['heads that share unevenly', { 'attention.head_count_kv': 3 }, '', /multiple of head_count_kv 3/],
    ['no size of narrow heads', { 'attention.key_length_swa': 'x' }, '', /key_length_swa' must be a number/],
    ['no table', {}, 'per_layer_token_embd.weight', /'per_layer_token_embd.weight' is missing/],
    ['no gate', {}, 'blk.3.inp_gate.weight', /'blk.3.inp_gate.weight' is missing/],
  ] as const)('refuses %s', async (_, members, without, message) => {
    const file = changed(await open(), members, without);
    await expect(buildGraph(file)).rejects.toThrow(message);
    await expect(buildGraph(file)).rejects.toThrow(ModelFileError);
  });
});
