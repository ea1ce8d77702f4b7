import { rename, writeFile } from 'node:fs/promises';
import type { ModelShape } from '../../test/support/random-model.ts';
import { type OnnxInitializer, type OnnxNode, type OnnxValue, onnxModel, onnxType } from './onnx-writer.ts';
import { nibbleScale, randomWords } from './random.ts';

/** Number of weights that share a scale, as in Q4_0. */
const blockSize = 32;
const bits = 4;
/** Number of positions in the rotary tables. */
const rotaryPositions = 4096;

/** Names of the graph's inputs and outputs, except the KV cache. */
export const onnxNames = {
  ids: 'input_ids',
  /** Total tokens including this step, minus one. */
  lastPosition: 'seqlens_k',
  /** Total tokens including this step. */
  total: 'total_sequence_length',
  /** Index of the token in this step whose logits are returned. */
  wantedToken: 'wanted',
  logits: 'logits',
} as const;

/** Input and output names of the KV cache tensors of a layer. */
export const onnxCache = (layer: number): readonly { past: string; present: string }[] =>
  ['key', 'value'].map((kind) => ({ past: `past.${layer}.${kind}`, present: `present.${layer}.${kind}` }));

/**
 * Writes a Llama-like decoder in the layout of onnxruntime's model builder for WebGPU: 4-bit blocks of 32
 * (`MatMulNBits`) with f32 activations, q, k and v in one product, rotation and cache inside `GroupQueryAttention`,
 * residual sums inside the norms, and logits of one token only. Weights are random.
 */
export async function writeOnnxModel(path: string, shape: ModelShape): Promise<void> {
  // Written to a temporary name, so that an aborted run leaves no partial file.
  const partial = `${path}.${process.pid}.part`;
  await writeFile(partial, onnxModel(decoder(shape)));
  await rename(partial, path);
}

function decoder(shape: ModelShape): Parameters<typeof onnxModel>[0] {
  const { embedding, heads, kvHeads, headSize, feedForward, vocab, layers } = shape;
  const nodes: OnnxNode[] = [];
  const initializers: OnnxInitializer[] = [];
  const inputs: OnnxValue[] = [
    { name: onnxNames.ids, type: onnxType.int64, shape: [1, 'tokens'] },
    { name: onnxNames.lastPosition, type: onnxType.int32, shape: [1] },
    { name: onnxNames.total, type: onnxType.int32, shape: [] },
    { name: onnxNames.wantedToken, type: onnxType.int64, shape: [1] },
  ];
  const outputs: OnnxValue[] = [{ name: onnxNames.logits, type: onnxType.float, shape: [1, 1, vocab] }];
  const random = randomWords(1);

  const node = (
    op: string,
    from: readonly string[],
    to: readonly string[],
    options: Partial<OnnxNode> = {},
  ) => {
    nodes.push({ op, domain: 'com.microsoft', inputs: from, outputs: to, ...options });
  };
  const store = (name: string, type: OnnxInitializer['type'], dims: readonly number[], data: Uint8Array) => {
    initializers.push({ name, type, shape: dims, data });
  };
  const floats = (name: string, dims: readonly number[], values: Float32Array) =>
    store(name, onnxType.float, dims, new Uint8Array(values.buffer));
  const quantized = (name: string, rows: number, columns: number) => {
    const blocks = columns / blockSize;
    const data = random((rows * columns * bits) / 32);
    store(`${name}.q`, onnxType.uint8, [rows, blocks, (blockSize * bits) / 8], new Uint8Array(data.buffer));
    floats(`${name}.scale`, [rows, blocks], new Float32Array(rows * blocks).fill(nibbleScale(columns)));
  };
  const matMul = (from: string, weights: string, rows: number, columns: number, to: string) =>
    node('MatMulNBits', [from, `${weights}.q`, `${weights}.scale`], [to], {
      ints: { K: columns, N: rows, bits, block_size: blockSize },
    });
  const quantizedMatMul = (from: string, name: string, rows: number, columns: number) => {
    quantized(`${name}.weight`, rows, columns);
    matMul(from, `${name}.weight`, rows, columns, name);
    return name;
  };
  const onesVector = (name: string) => {
    floats(name, [embedding], new Float32Array(embedding).fill(1));
    return name;
  };
  const epsilon = { floats: { epsilon: 1e-6 } };

  quantized('embedding', vocab, embedding);
  store(
    'embedding.rows',
    onnxType.int64,
    [2],
    new Uint8Array(new BigInt64Array([BigInt(vocab), BigInt((embedding * bits) / 8)]).buffer),
  );
  node('Reshape', ['embedding.q', 'embedding.rows'], ['embedding.table'], { domain: '' });
  node('GatherBlockQuantized', ['embedding.table', onnxNames.ids, 'embedding.scale'], ['embedded'], {
    ints: { bits, block_size: blockSize, gather_axis: 0, quantize_axis: 1 },
  });
  const { cosines, sines } = rotaryTables(headSize, shape.ropeBase ?? 10_000);
  floats('rotary.cos', [rotaryPositions, headSize / 2], cosines);
  floats('rotary.sin', [rotaryPositions, headSize / 2], sines);

  let residual = 'embedded';
  let normed = 'first.normed';
  node('SimplifiedLayerNormalization', [residual, onesVector('first.norm')], [normed], {
    domain: '',
    ...epsilon,
  });
  /** Adds to the residual stream and normalizes the sum. */
  const addAndNorm = (added: string, name: string) => {
    const sum = `${name}.sum`;
    node(
      'SkipSimplifiedLayerNormalization',
      [residual, added, onesVector(`${name}.norm`)],
      [`${name}.normed`, '', '', sum],
      epsilon,
    );
    residual = sum;
    normed = `${name}.normed`;
  };
  for (let layer = 0; layer < layers; layer++) {
    const at = (part: string) => `layers.${layer}.${part}`;
    const qkv = quantizedMatMul(normed, at('qkv'), (heads + 2 * kvHeads) * headSize, embedding);
    const cache = onnxCache(layer);
    for (const { past, present } of cache) {
      inputs.push({ name: past, type: onnxType.float, shape: [1, kvHeads, 'past', headSize] });
      outputs.push({ name: present, type: onnxType.float, shape: [1, kvHeads, 'present', headSize] });
    }
    node(
      'GroupQueryAttention',
      [
        qkv,
        '',
        '',
        ...cache.map(({ past }) => past),
        onnxNames.lastPosition,
        onnxNames.total,
        'rotary.cos',
        'rotary.sin',
      ],
      [at('attention'), ...cache.map(({ present }) => present)],
      {
        ints: { num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1, rotary_interleaved: 0 },
        floats: { scale: 1 / Math.sqrt(headSize) },
      },
    );
    addAndNorm(quantizedMatMul(at('attention'), at('o'), embedding, heads * headSize), at('ffn'));
    const gate = quantizedMatMul(normed, at('gate'), feedForward, embedding);
    const up = quantizedMatMul(normed, at('up'), feedForward, embedding);
    node('Sigmoid', [gate], [at('sigmoid')], { domain: '' });
    node('Mul', [gate, at('sigmoid')], [at('silu')], { domain: '' });
    node('Mul', [at('silu'), up], [at('gated')], { domain: '' });
    addAndNorm(quantizedMatMul(at('gated'), at('down'), embedding, feedForward), at('next'));
  }
  node('Gather', [normed, onnxNames.wantedToken], ['last'], { domain: '', ints: { axis: 1 } });
  matMul('last', 'embedding', vocab, embedding, onnxNames.logits);
  return { nodes, initializers, inputs, outputs };
}

function rotaryTables(headSize: number, base: number): { cosines: Float32Array; sines: Float32Array } {
  const half = headSize / 2;
  const angles = Float32Array.from({ length: rotaryPositions * half }, (_, index) => {
    const position = Math.floor(index / half);
    return position / base ** ((index % half) / half);
  });
  return { cosines: angles.map(Math.cos), sines: angles.map(Math.sin) };
}
