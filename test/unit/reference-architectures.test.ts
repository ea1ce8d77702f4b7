import { describe, expect, it } from 'vitest';
import { gumbel } from '../../kernels/reference/index.ts';
import { memoryModel } from '../support/memory-model.ts';
import { referenceForward } from '../support/reference-model.ts';

const width = 24;
const heads = 4;
const kvHeads = 2;
const headDim = 6;
const hidden = 20;
const vocab = 17;
const layers = 2;
const prompt = [3, 1, 4, 1, 5, 9, 2, 6];

type Tensors = Record<string, { shape: number[]; values: Float32Array }>;

/** Two layers of noise: every run has the same. */
function randomTensors(options: { biases?: boolean; headNorms?: boolean } = {}): Tensors {
  const tensors: Tensors = {};
  const add = (name: string, shape: number[], around = 0) => {
    const length = shape.reduce((product, size) => product * size, 1);
    const seed = Object.keys(tensors).length;
    tensors[name] = {
      shape,
      values: Float32Array.from({ length }, (_, i) => around + 0.3 * (gumbel(seed, 0, i) - 0.5772)),
    };
  };
  add('token_embd.weight', [vocab, width]);
  for (let n = 0; n < layers; n++) {
    const blk = `blk.${n}`;
    add(`${blk}.attn_norm.weight`, [width], 1);
    for (const [name, count] of Object.entries({ q: heads, k: kvHeads, v: kvHeads })) {
      add(`${blk}.attn_${name}.weight`, [count * headDim, width]);
      if (options.biases) add(`${blk}.attn_${name}.bias`, [count * headDim]);
      if (options.headNorms && name !== 'v') add(`${blk}.attn_${name}_norm.weight`, [headDim], 1);
    }
    add(`${blk}.attn_output.weight`, [width, heads * headDim]);
    add(`${blk}.ffn_norm.weight`, [width], 1);
    add(`${blk}.ffn_gate.weight`, [hidden, width]);
    add(`${blk}.ffn_up.weight`, [hidden, width]);
    add(`${blk}.ffn_down.weight`, [width, hidden]);
  }
  add('output_norm.weight', [width], 1);
  return tensors;
}

function logits(architecture: string, tensors: Tensors, more: Record<string, number | string> = {}) {
  const members = {
    block_count: layers,
    embedding_length: width,
    feed_forward_length: hidden,
    'attention.head_count': heads,
    'attention.head_count_kv': kvHeads,
    'attention.key_length': headDim,
    'attention.layer_norm_rms_epsilon': 1e-12,
    'rope.freq_base': 100,
    ...more,
  };
  const metadata = new Map<string, number | string>([['general.architecture', architecture]]);
  for (const [key, value] of Object.entries(members)) metadata.set(`${architecture}.${key}`, value);
  return referenceForward(memoryModel(metadata, tensors), prompt);
}

/** Reorders the rows of every head of q and k from neighbouring pairs to halves. */
function asNeox(tensors: Tensors): Tensors {
  const out = { ...tensors };
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    if (!/attn_[qk]\.(weight|bias)/.test(name)) continue;
    const cols = shape[1] ?? 1;
    const moved = new Float32Array(values.length);
    for (let row = 0; row < shape[0]!; row++) {
      const inHead = row % headDim;
      const from = row - inHead + (inHead < headDim / 2 ? 2 * inHead : 2 * (inHead - headDim / 2) + 1);
      moved.set(values.subarray(from * cols, (from + 1) * cols), row * cols);
    }
    out[name] = { shape, values: moved };
  }
  return out;
}

function scaled(tensors: Tensors, name: string, factor: number): Tensors {
  const { shape, values } = tensors[name]!;
  return { ...tensors, [name]: { shape, values: values.map((value) => value * factor) } };
}

function distance(a: Float64Array[], b: Float64Array[]): number {
  return Math.max(...a.flatMap((row, t) => Array.from(row, (value, i) => Math.abs(value - b[t]![i]!))));
}

describe('the reference model, by architecture', () => {
  it('qwen2 is llama with biases and the rows of q and k in halves', async () => {
    const tensors = randomTensors({ biases: true });
    const llama = await logits('llama', tensors);
    expect(distance(llama, await logits('qwen2', asNeox(tensors)))).toBeLessThan(1e-6);
    expect(distance(llama, await logits('qwen2', tensors))).toBeGreaterThan(1e-3);
  });

  it('each bias counts', async () => {
    const tensors = randomTensors({ biases: true });
    const before = await logits('qwen2', tensors);
    for (const name of ['q', 'k', 'v']) {
      const without = await logits('qwen2', scaled(tensors, `blk.0.attn_${name}.bias`, 0));
      expect(distance(before, without), name).toBeGreaterThan(1e-4);
    }
  });

  it('qwen3 normalises every head of q and k: their scale does not matter, the norm weights do', async () => {
    const tensors = randomTensors({ headNorms: true });
    const before = await logits('qwen3', tensors);
    for (const name of ['q', 'k']) {
      const weight = await logits('qwen3', scaled(tensors, `blk.1.attn_${name}.weight`, 4));
      expect(distance(before, weight), name).toBeLessThan(1e-6);
      const norm = await logits('qwen3', scaled(tensors, `blk.1.attn_${name}_norm.weight`, 4));
      expect(distance(before, norm), name).toBeGreaterThan(1e-3);
    }
  });

  it('a separate output matrix is used where the file has one', async () => {
    const tensors = randomTensors();
    const tied = await logits('llama', tensors);
    const { shape, values } = tensors['token_embd.weight']!;
    const doubled = { shape, values: values.map((value) => value * 2) };
    const untied = await logits('llama', { ...tensors, 'output.weight': doubled });
    expect(
      distance(
        tied.map((row) => row.map((value) => value * 2)),
        untied,
      ),
    ).toBeLessThan(1e-9);
  });

  it('rope_freqs and linear scaling stretch the positions alike', async () => {
    const tensors = randomTensors();
    const stretched = { shape: [headDim / 2], values: new Float32Array(headDim / 2).fill(4) };
    const byFactors = await logits('llama', { ...tensors, 'rope_freqs.weight': stretched });
    const linear = { 'rope.scaling.type': 'linear', 'rope.scaling.factor': 4 };
    expect(distance(byFactors, await logits('llama', tensors, linear))).toBeLessThan(1e-9);
    expect(distance(byFactors, await logits('llama', tensors))).toBeGreaterThan(1e-3);
  });

  it('what it does not know is refused by name', async () => {
    await expect(logits('foo', randomTensors())).rejects.toThrow("granite, not 'foo'");
    await expect(logits('llama', randomTensors(), { 'rope.scaling.type': 'yarn' })).rejects.toThrow('yarn');
    await expect(logits('llama', {})).rejects.toThrow('no tensor');
  });
});
