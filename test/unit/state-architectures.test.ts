/**
 * The graphs that architectures with states build from metadata and tensor names; their computation is tested in
 * test/golden.
 */
import { describe, expect, it } from 'vitest';
import { type ModelFile, ModelFileError } from '../../src/engine/formats/model-file.ts';
import { withTensorViews } from '../../src/engine/formats/tensor-views.ts';
import type { Graph } from '../../src/engine/graph/graph.ts';
import { buildGraph } from '../../src/engine/models/registry.ts';
import { weightBytes } from '../../src/engine/loading/weights.ts';
import { memorySource, openSource } from '../support/byte-source.ts';
import { type TinyModel, tinyModel } from '../support/tiny-model.ts';

const fileOf = (model: TinyModel): Promise<ModelFile> => openSource(memorySource(tinyModel(model)));

type Members = Readonly<Record<string, number | boolean | string | readonly unknown[] | undefined>>;

/** A file with changed metadata and without some tensors. */
function changed(file: ModelFile, members: Members, without: readonly string[] = []): ModelFile {
  const prefix = String(file.metadata.get('general.architecture'));
  const metadata = new Map<string, unknown>(file.metadata);
  for (const [key, value] of Object.entries(members)) {
    if (value === undefined) metadata.delete(`${prefix}.${key}`);
    else metadata.set(`${prefix}.${key}`, value);
  }
  const tensors = new Map([...file.tensors].filter(([name]) => !without.includes(name)));
  return {
    ...file,
    name: 'a file',
    metadata: metadata as ModelFile['metadata'],
    tensors,
    readRows: file.readRows.bind(file),
  };
}

const kindsOf = ({ shape }: Graph) => (shape.caches ?? []).map(({ kind }) => kind);
const mixersOf = ({ units }: Graph) =>
  units.flatMap(({ op }) => (op === 'attention' || op === 'delta_net' || op === 'short_conv' ? [op] : []));

describe('which layers keep a state', () => {
  it('lfm2: those without key heads; the state holds the last inputs of the convolution', async () => {
    const file = await fileOf({ architecture: 'lfm2', layers: 4, state: { kernel: 3 } });
    const graph = await buildGraph(file);
    expect(mixersOf(graph)).toEqual(['short_conv', 'attention', 'short_conv', 'attention']);
    expect(graph.shape.caches).toEqual([
      { kind: 'state', floats: 2 * 64 },
      { kind: 'pages', kvHeads: 2, headDim: 64 },
      { kind: 'state', floats: 2 * 64 },
      { kind: 'pages', kvHeads: 2, headDim: 64 },
    ]);
    expect(graph.shape.perLayer?.map(({ heads, mixed }) => [heads, mixed])).toEqual([
      [0, 192],
      [4, 0],
      [0, 192],
      [4, 0],
    ]);
    const unlike = changed(file, { 'attention.head_count_kv': [0, 2, 0, 4] });
    await expect(buildGraph(unlike)).rejects.toThrow("tensor 'blk.3.attn_k.weight' must be [256, 64]");
  });

  it('lfm2: the last norm under either name', async () => {
    const file = await fileOf({ architecture: 'lfm2' });
    const norm = file.tensors.get('token_embd_norm.weight');
    const other = changed(file, {}, ['token_embd_norm.weight']);
    const tensors = new Map([
      ...other.tensors,
      ['output_norm.weight', { ...norm, name: 'output_norm.weight' }],
    ]);
    const { units } = await buildGraph({ ...other, tensors: tensors as ModelFile['tensors'] });
    expect(units.find(({ id }) => id === 'output.norm')).toMatchObject({ weight: 'output_norm.weight' });
  });

  it('qwen3.5: all but every fourth layer, or as the file says; layers that predict further tokens are left out', async () => {
    const file = await fileOf({ architecture: 'qwen35', layers: 4, state: { every: 4 } });
    const delta = ['short_conv', 'delta_net'];
    const usual = [...delta, ...delta, ...delta, 'attention'];
    const graph = await buildGraph(file);
    expect(mixersOf(graph)).toEqual(usual);
    expect(kindsOf(graph)).toEqual([...Array<string>(6).fill('state'), 'pages']);
    expect(mixersOf(await buildGraph(changed(file, { full_attention_interval: undefined })))).toEqual(usual);
    const listed = { full_attention_interval: 1, 'attention.recurrent_layers': [true, true, true, false] };
    expect(mixersOf(await buildGraph(changed(file, listed)))).toEqual(usual);
    // A fifth layer that is not computed.
    const predicting = await buildGraph(changed(file, { block_count: 5, nextn_predict_layers: 1 }));
    expect(predicting).toEqual(graph);
    const [conv, state] = graph.shape.caches ?? [];
    expect([conv, state]).toEqual([
      { kind: 'state', floats: 3 * (2 * 2 * 16 + 64) },
      { kind: 'state', floats: 4 * 16 * 16 },
    ]);
  });

  it('qwen3.5: rows of queries and gates alternate in one matrix', async () => {
    const file = await fileOf({ architecture: 'qwen35', headDim: 32, type: 'F16' });
    const graph = await buildGraph(file);
    const seen = withTensorViews(file, graph.views);
    const whole = file.tensors.get('blk.1.attn_q.weight');
    const [query, gate] = ['query', 'gate'].map((part) => seen.tensors.get(`blk.1.attn_q.weight/${part}`));
    if (!whole || !query || !gate) throw new Error('no such tensor');
    expect([whole.shape, query.shape, gate.shape]).toEqual([
      [256, 64],
      [128, 64],
      [128, 64],
    ]);
    const bytes = await file.readRows(whole, 0, 256);
    const row = 64 * 2;
    const rowsOf = (first: number) => bytes.subarray(first * row, (first + 32) * row);
    for (const head of [0, 1, 2, 3]) {
      expect(await seen.readRows(query, head * 32, 32)).toEqual(rowsOf(head * 64));
      expect(await seen.readRows(gate, head * 32, 32)).toEqual(rowsOf(head * 64 + 32));
    }
    expect(weightBytes(seen, graph)).toBeGreaterThan(whole.sizeBytes);
  });
});

describe('an unusable file', () => {
  it.each([
    ['lfm2', 'blk.0.shortconv.conv.weight'],
    ['lfm2', 'blk.0.shortconv.in_proj.weight'],
    ['lfm2', 'blk.1.attn_q_norm.weight'],
    ['lfm2', 'token_embd_norm.weight'],
    ['qwen35', 'blk.0.ssm_a'],
    ['qwen35', 'blk.0.ssm_dt.bias'],
    ['qwen35', 'blk.0.ssm_conv1d.weight'],
    ['qwen35', 'blk.0.attn_gate.weight'],
    ['qwen35', 'blk.1.attn_q.weight'],
    ['qwen35', 'blk.1.post_attention_norm.weight'],
  ] as const)('%s without %s is rejected, naming the tensor', async (architecture, tensor) => {
    const file = changed(await fileOf({ architecture }), {}, [tensor]);
    await expect(buildGraph(file)).rejects.toThrow(`a file: tensor '${tensor}' is missing`);
  });

  it.each([
    ['lfm2', { 'attention.head_count_kv': [0] }, 'one for each layer, got 1 numbers for 2 layers'],
    [
      'lfm2',
      { 'attention.head_count_kv': [0, -2] },
      'must be a whole number >= 0, or one for each layer, got -2',
    ],
    ['lfm2', { 'attention.head_count_kv': [0, 'two'] }, 'got NaN'],
    ['lfm2', { 'attention.head_count_kv': [0, 0] }, 'attention.head_count_kv must be a whole number >= 1'],
    ['lfm2', { 'attention.head_count_kv': [1, 3] }, 'must be a multiple of head_count_kv'],
    ['lfm2', { block_count: 1e9 }, "metadata 'lfm2.attention.head_count_kv' must be a whole number"],
    [
      'lfm2',
      { block_count: 1e9, 'attention.head_count_kv': 0 },
      "'lfm2.block_count' must be a whole number from 1",
    ],
    [
      'lfm2',
      { 'shortconv.l_cache': 9 },
      "metadata 'lfm2.shortconv.l_cache' must be a whole number from 2 to 8, got 9",
    ],
    [
      'lfm2',
      { 'shortconv.l_cache': undefined },
      "metadata 'lfm2.shortconv.l_cache' must be a number, got nothing",
    ],
    ['lfm2', { 'shortconv.l_cache': 3 }, "tensor 'blk.0.shortconv.conv.weight' must be [64, 3], got [64, 4]"],
    ['lfm2', { expert_count: 8 }, 'experts are not supported for lfm2'],
    ['lfm2', { pooling_type: 1 }, 'embeddings are not supported for lfm2'],
    ['lfm2', { 'attention.causal': false }, "'lfm2.attention.causal'"],
    ['lfm2', { 'attention.sliding_window': 64 }, "'lfm2.attention.sliding_window'"],
    [
      'qwen35',
      { 'ssm.conv_kernel': 1 },
      "'qwen35.ssm.conv_kernel' must be a whole number from 2 to 8, got 1",
    ],
    ['qwen35', { 'ssm.state_size': 24 }, 'ssm.state_size must be one of 16, 32, 64, 128, got 24'],
    ['qwen35', { 'ssm.group_count': 3 }, 'ssm.time_step_rank must be a multiple of ssm.group_count 3, got 4'],
    ['qwen35', { 'ssm.inner_size': 48 }, 'ssm.inner_size must be a multiple of 32'],
    ['qwen35', { 'ssm.time_step_rank': 0 }, "'qwen35.ssm.time_step_rank' must be a whole number from 1"],
    ['qwen35', { 'ssm.time_step_rank': 8 }, "tensor 'blk.0.ssm_beta.weight' must be [8, 64], got [4, 64]"],
    [
      'qwen35',
      { nextn_predict_layers: 2 },
      "'qwen35.nextn_predict_layers' must be a whole number from 0 to 1",
    ],
    ['qwen35', { full_attention_interval: 0 }, 'no layer has attention, which is not supported'],
    ['qwen35', { 'attention.recurrent_layers': [true] }, 'must hold a value for each of 2 layers, got 1'],
    ['qwen35', { expert_count: 8 }, 'experts are not supported for qwen35'],
  ] as const)('%s with %o: %s', async (architecture, members, message) => {
    const building = buildGraph(changed(await fileOf({ architecture }), members));
    await expect(building).rejects.toThrow(ModelFileError);
    await expect(building).rejects.toThrow(message);
  });
});
