/**
 * Gemma 4 of a few kilobytes with random weights, as GGUF bytes: layers of two sizes, shared keys, per-layer inputs.
 */
import { gumbel, noiseBits, quantize } from '../../kernels/reference/index.ts';
import {
  f32,
  type GgufTensor,
  type GgufType,
  type GgufValue,
  ggufBytes,
  scalars,
  text,
  u32,
} from './gguf-writer.ts';
import { isEncodable, randomBlocks } from './random-blocks.ts';
import { byteTokenizer } from './tiny-model.ts';

export interface TinyGemma4 {
  readonly layers?: number;
  readonly width?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  /** Head size of layers with full attention. */
  readonly headDim?: number;
  /** Head size of layers with a sliding window. */
  readonly nearDim?: number;
  readonly feedForward?: number;
  /** Feed-forward size of the last layers, which share keys and values; by default 64 more. */
  readonly sharedFeedForward?: number;
  readonly vocab?: number;
  readonly context?: number;
  readonly window?: number;
  /** One of this many layers has full attention. */
  readonly every?: number;
  /** Number of last layers that share keys and values. */
  readonly shared?: number;
  /** 0: none. */
  readonly layerInput?: number;
  readonly cap?: number;
  /** Key heads of layers with full attention, whose values are their keys. */
  readonly keysAreValues?: number;
  /** Type of the matrices; by the name's last part when they differ. */
  readonly type?: GgufType | Readonly<Record<string, GgufType>>;
  readonly seed?: number;
}

export const tinyGemma4 = (shape: TinyGemma4): Uint8Array<ArrayBuffer> => ggufBytes(gemma4Parts(shape));

/** @param random 32 bits for each call, for models that are too large to sample every weight with care */
export function gemma4Parts(
  shape: TinyGemma4,
  random?: () => number,
): { metadata: [string, GgufValue][]; tensors: GgufTensor[] } {
  const { layers = 6, width = 64, heads = 4, kvHeads = 2, headDim = 64, nearDim = 32 } = shape;
  const { feedForward = 96, vocab = 288, context = 512, window = 20, every = 3, shared = 3 } = shape;
  const { layerInput = 32, cap = 20, keysAreValues, type = 'F32', seed = 1 } = shape;
  const { sharedFeedForward = feedForward + 64 } = shape;
  const tensors: GgufTensor[] = [];
  const add = (name: string, dimensions: readonly number[], of: GgufType, scale: number, around = 0) => {
    const length = dimensions.reduce((product, size) => product * size, 1);
    const draw = seed * 1000 + tensors.length;
    const data = () => {
      if (random && of !== 'F32') return randomBlocks(of, { rows: 1, columns: length }, scale, random);
      const values = Float32Array.from({ length }, (_, i) => around + scale * (gumbel(draw, 1, i) - 0.5772));
      if (isEncodable(of)) return quantize(of, values);
      let n = 0;
      return randomBlocks(of, { rows: 1, columns: length }, scale, () => noiseBits(draw, 2, n++));
    };
    tensors.push({ name, type: of, shape: dimensions, data });
  };
  const matrix = (name: string, rows: number, columns: number, scale = 1) => {
    const own = typeof type === 'string' ? type : (type[name.split('.').at(-1) as string] ?? 'F32');
    add(`${name}.weight`, [rows, columns], own, scale / Math.sqrt(columns));
  };
  const vector = (name: string, length: number, around = 1) =>
    add(`${name}.weight`, [length], 'F32', 0.2 * around, around);
  const numbers = (name: string, values: readonly number[]) =>
    tensors.push({
      name: `${name}.weight`,
      type: 'F32',
      shape: [values.length],
      data: () => new Uint8Array(Float32Array.from(values).buffer),
    });

  const isNear = Array.from({ length: layers }, (_, n) => (n + 1) % every !== 0);
  const widths = isNear.map((_, n) => (n < layers - shared ? feedForward : sharedFeedForward));
  const keyHeads = isNear.map((near) => (near ? kvHeads : (keysAreValues ?? kvHeads)));
  matrix('token_embd', vocab, width, 4);
  if (layerInput > 0) {
    matrix('per_layer_token_embd', vocab, layers * layerInput, 8);
    matrix('per_layer_model_proj', layers * layerInput, width);
    vector('per_layer_proj_norm', layerInput);
  }
  // Half of the pairs of a head do not rotate.
  numbers('rope_freqs', [...Array<number>(headDim / 4).fill(1), ...Array<number>(headDim / 4).fill(1e30)]);
  for (const [n, near] of isNear.entries()) {
    const blk = `blk.${n}`;
    const dim = near ? nearDim : headDim;
    const own = n < layers - shared;
    vector(`${blk}.attn_norm`, width);
    matrix(`${blk}.attn_q`, heads * dim, width);
    // Scores are not scaled: a weight of 1 would make them sharper than in any trained model, and amplify the last
    // bit.
    vector(`${blk}.attn_q_norm`, dim, 0.3);
    if (own) {
      matrix(`${blk}.attn_k`, (keyHeads[n] as number) * dim, width);
      vector(`${blk}.attn_k_norm`, dim);
      if (near || keysAreValues === undefined) matrix(`${blk}.attn_v`, (keyHeads[n] as number) * dim, width);
    }
    matrix(`${blk}.attn_output`, width, heads * dim);
    vector(`${blk}.post_attention_norm`, width);
    vector(`${blk}.ffn_norm`, width);
    matrix(`${blk}.ffn_gate`, widths[n] as number, width);
    matrix(`${blk}.ffn_up`, widths[n] as number, width);
    matrix(`${blk}.ffn_down`, width, widths[n] as number);
    vector(`${blk}.post_ffw_norm`, width);
    if (layerInput > 0) {
      matrix(`${blk}.inp_gate`, layerInput, width);
      matrix(`${blk}.proj`, width, layerInput);
      vector(`${blk}.post_norm`, width);
    }
    // One layer of the file has none.
    if (n !== 1) numbers(`${blk}.layer_output_scale`, [0.6 + n * 0.07]);
  }
  vector('output_norm', width);

  const members: Record<string, GgufValue> = {
    context_length: u32(context),
    embedding_length: u32(width),
    block_count: u32(layers),
    feed_forward_length: scalars('i32', widths),
    'attention.head_count': u32(heads),
    'attention.head_count_kv': keysAreValues === undefined ? u32(kvHeads) : scalars('i32', keyHeads),
    'attention.key_length': u32(headDim),
    'attention.key_length_swa': u32(nearDim),
    'attention.layer_norm_rms_epsilon': f32(1e-6),
    'attention.sliding_window': u32(window),
    'attention.sliding_window_pattern': scalars('bool', isNear),
    'attention.shared_kv_layers': u32(shared),
    embedding_length_per_layer_input: u32(layerInput),
    'rope.freq_base': f32(10000),
    'rope.freq_base_swa': f32(500),
    'rope.dimension_count': u32(headDim),
    'rope.dimension_count_swa': u32(nearDim),
    ...(cap > 0 ? { final_logit_softcapping: f32(cap) } : {}),
  };
  const metadata: [string, GgufValue][] = [
    ['general.architecture', text('gemma4')],
    ['general.name', text('tiny gemma4')],
    ...Object.entries(members).map(([key, value]): [string, GgufValue] => [`gemma4.${key}`, value]),
    ...byteTokenizer(vocab),
  ];
  return { metadata, tensors };
}
