/**
 * Whole models of a few kilobytes with random weights, as GGUF bytes: every variation of an architecture in a second.
 */
import { gumbel, noiseBits, quantize } from '../../kernels/reference/index.ts';
import { loadEngine, type Platform, type ResidentEngine } from '../../src/engine/index.ts';
import type { EngineOptions } from '../../src/engine/types.ts';
import { testPlatform } from './test-platform.ts';
import { memoryFiles } from './byte-source.ts';
import {
  f32,
  type GgufTensor,
  type GgufType,
  type GgufValue,
  ggufBytes,
  scalars,
  text,
  texts,
  u32,
} from './gguf-writer.ts';
import { isEncodable, randomBlocks } from './random-blocks.ts';
import { stateMetadata, stateTensors, type TinyState } from './tiny-state.ts';

export interface TinyModel {
  readonly architecture:
    | 'gemma3'
    | 'gpt-oss'
    | 'granite'
    | 'lfm2'
    | 'llama'
    | 'phi3'
    | 'qwen2'
    | 'qwen3'
    | 'qwen3moe'
    | 'qwen35'
    | 'smollm3';
  readonly layers?: number;
  readonly width?: number;
  readonly heads?: number;
  readonly kvHeads?: number;
  readonly headDim?: number;
  readonly feedForward?: number;
  /** At least 258: the bytes and two special tokens. */
  readonly vocab?: number;
  readonly context?: number;
  /** Type of the matrices; by the name's last part (`attn_q`, `token_embd`) when they differ. */
  readonly type?: GgufType | Readonly<Record<string, GgufType>>;
  readonly biases?: boolean;
  readonly untied?: boolean;
  /** Number of rotated elements of a head. */
  readonly rotary?: number;
  readonly ropeFactors?: readonly number[];
  /** Linear scaling of the positions. */
  readonly ropeScale?: number;
  /** Number of positions that a token attends to in some or all layers, depending on the architecture. */
  readonly window?: number;
  /** Makes it an embedding model; the number in GGUF. */
  readonly pooling?: number;
  /** For architectures with experts; `dense` lists layers without. */
  readonly experts?: {
    readonly count: number;
    readonly used: number;
    readonly feedForward: number;
    readonly dense?: readonly number[];
  };
  /** For architectures with layers that keep a state. */
  readonly state?: TinyState;
  readonly seed?: number;
}

export interface ModelParts {
  readonly metadata: readonly (readonly [string, GgufValue])[];
  readonly tensors: readonly GgufTensor[];
}

/** Ends a text; the following id starts one. Bytes are their own ids. */
export const endToken = 256;

/** GPT-2's printable substitutes for the 256 bytes, in byte order. */
function byteTokens(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
}

export const tinyModel = (shape: TinyModel): Uint8Array<ArrayBuffer> => ggufBytes(tinyModelParts(shape));

/** Metadata and tensors of a model; the tensors' data is made when it is read. */
export function tinyModelParts(shape: TinyModel): ModelParts {
  const { architecture, layers = 2, width = 64, heads = 4, kvHeads = 2, headDim = 64 } = shape;
  const { feedForward = 96, vocab = 288, context = 512, type = 'F32', rotary = headDim, seed = 1 } = shape;
  const isOne = architecture === 'phi3';
  const isSandwich = architecture === 'gemma3';
  const isGptOss = architecture === 'gpt-oss';
  const isQwen35 = architecture === 'qwen35';
  const hasHeadNorms = isSandwich || isQwen35 || ['qwen3', 'qwen3moe', 'lfm2'].includes(architecture);
  const sizes = { architecture, layers, width, kvHeads, state: shape.state };
  const { biases = isGptOss } = shape;
  const usualExperts: TinyModel['experts'] =
    isGptOss || architecture === 'qwen3moe' ? { count: 6, used: 2, feedForward: 64 } : undefined;
  const { experts = usualExperts } = shape;
  const tensors: GgufTensor[] = [];
  const add = (name: string, dimensions: readonly number[], of: GgufType, scale: number, around = 0) => {
    const length = dimensions.reduce((product, size) => product * size, 1);
    const draw = seed * 1000 + tensors.length;
    const data = () => {
      const values = Float32Array.from({ length }, (_, i) => around + scale * (gumbel(draw, 1, i) - 0.5772));
      if (isEncodable(of)) return quantize(of, values);
      let n = 0;
      return randomBlocks(of, { rows: 1, columns: length }, scale, () => noiseBits(draw, 2, n++));
    };
    tensors.push({ name, type: of, shape: dimensions, data });
  };
  const typeOf = (name: string) =>
    typeof type === 'string' ? type : (type[name.split('.').at(-1) as string] ?? 'F32');
  const matrix = (name: string, rows: number, columns: number, scale = 1) =>
    add(`${name}.weight`, [rows, columns], typeOf(name), scale / Math.sqrt(columns));
  /** One matrix for each expert. */
  const matrices = (name: string, count: number, rows: number, columns: number) => {
    add(`${name}.weight`, [count, rows, columns], typeOf(name), 1 / Math.sqrt(columns));
    if (isGptOss) add(`${name}.bias`, [count, rows], 'F32', 0.2);
  };
  const vector = (name: string, length: number, around: number) => add(name, [length], 'F32', 0.2, around);

  matrix('token_embd', vocab, width, 4);
  for (let n = 0; n < layers; n++) {
    const blk = `blk.${n}`;
    vector(`${blk}.attn_norm.weight`, width, 1);
    const stateful = stateTensors(sizes, n);
    for (const one of stateful ?? []) {
      if ('rows' in one) matrix(one.name, one.rows, one.columns);
      else add(one.name, one.shape, 'F32', one.scale, one.around);
    }
    const split = { q: isQwen35 ? 2 * heads : heads, k: kvHeads, v: kvHeads };
    const attention: Record<string, number> = isOne ? { qkv: heads + 2 * kvHeads } : split;
    const projections = stateful ? {} : attention;
    for (const [part, count] of Object.entries(projections)) {
      matrix(`${blk}.attn_${part}`, count * headDim, width);
      if (biases) vector(`${blk}.attn_${part}.bias`, count * headDim, 0);
      if (hasHeadNorms && part !== 'v') vector(`${blk}.attn_${part}_norm.weight`, headDim, 1);
    }
    if (!stateful) matrix(`${blk}.attn_output`, width, heads * headDim);
    if (isGptOss) {
      vector(`${blk}.attn_output.bias`, width, 0);
      add(`${blk}.attn_sinks.weight`, [heads], 'F32', 2);
    }
    const isPost = isGptOss || isQwen35;
    if (isSandwich || isPost) vector(`${blk}.post_attention_norm.weight`, width, 1);
    if (!isPost) vector(`${blk}.ffn_norm.weight`, width, 1);
    if (experts && !experts.dense?.includes(n)) {
      const { count, feedForward: rows } = experts;
      // Far enough apart that rounding does not change the selection.
      add(`${blk}.ffn_gate_inp.weight`, [count, width], 'F32', 4 / Math.sqrt(width));
      if (isGptOss) vector(`${blk}.ffn_gate_inp.bias`, count, 0);
      for (const part of ['gate', 'up']) matrices(`${blk}.ffn_${part}_exps`, count, rows, width);
      matrices(`${blk}.ffn_down_exps`, count, width, rows);
      continue;
    }
    if (!isOne) matrix(`${blk}.ffn_gate`, feedForward, width);
    matrix(`${blk}.ffn_up`, isOne ? 2 * feedForward : feedForward, width);
    matrix(`${blk}.ffn_down`, width, feedForward);
    if (isSandwich) vector(`${blk}.post_ffw_norm.weight`, width, 1);
  }
  vector(architecture === 'lfm2' ? 'token_embd_norm.weight' : 'output_norm.weight', width, 1);
  if (shape.untied) matrix('output', vocab, width);
  if (shape.ropeFactors) {
    const { ropeFactors } = shape;
    const data = () => new Uint8Array(Float32Array.from(ropeFactors).buffer);
    tensors.push({ name: 'rope_freqs.weight', type: 'F32', shape: [ropeFactors.length], data });
  }

  const members: Record<string, GgufValue> = {
    context_length: u32(context),
    embedding_length: u32(width),
    block_count: u32(layers),
    feed_forward_length: u32(feedForward),
    'attention.head_count': u32(heads),
    'attention.head_count_kv': u32(kvHeads),
    'attention.key_length': u32(headDim),
    'attention.layer_norm_rms_epsilon': f32(1e-5),
    'rope.freq_base': f32(10000),
    'rope.dimension_count': u32(rotary),
    ...(shape.ropeScale
      ? { 'rope.scaling.type': text('linear'), 'rope.scaling.factor': f32(shape.ropeScale) }
      : {}),
    ...(shape.pooling ? { pooling_type: u32(shape.pooling) } : {}),
    ...(shape.window ? { 'attention.sliding_window': u32(shape.window) } : {}),
    ...(experts
      ? {
          expert_count: u32(experts.count),
          expert_used_count: u32(experts.used),
          expert_feed_forward_length: u32(experts.feedForward),
        }
      : {}),
    ...stateMetadata(sizes),
    // The last of the usual two layers has full attention.
    ...(isSandwich ? { 'attention.sliding_window_pattern': u32(2), 'rope.freq_base_swa': f32(500) } : {}),
    ...(architecture === 'granite'
      ? {
          embedding_scale: f32(3),
          residual_scale: f32(0.4),
          logit_scale: f32(4),
          'attention.scale': f32(0.06),
        }
      : {}),
  };
  const metadata: [string, GgufValue][] = [
    ['general.architecture', text(architecture)],
    ['general.name', text(`tiny ${architecture}`)],
    ...Object.entries(members).map(([key, value]): [string, GgufValue] => [`${architecture}.${key}`, value]),
    ...byteTokenizer(vocab),
  ];
  return { metadata, tensors };
}

/** Metadata of a tokenizer whose tokens are the bytes, an end and a start. */
export function byteTokenizer(vocab: number): [string, GgufValue][] {
  const tokens = [...byteTokens(), '<|end|>', '<|start|>'];
  while (tokens.length < vocab) tokens.push(`<unused${tokens.length}>`);
  return [
    ['tokenizer.ggml.model', text('gpt2')],
    ['tokenizer.ggml.pre', text('qwen2')],
    ['tokenizer.ggml.tokens', texts(tokens)],
    // 1 is a normal token, 3 a control token, 5 an unused one.
    [
      'tokenizer.ggml.token_type',
      scalars(
        'i32',
        tokens.map((_, id) => (id < 256 ? 1 : id < 258 ? 3 : 5)),
      ),
    ],
    ['tokenizer.ggml.merges', texts(['t h'])],
    ['tokenizer.ggml.bos_token_id', u32(endToken + 1)],
    ['tokenizer.ggml.eos_token_id', u32(endToken)],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: false }],
  ];
}

/**
 * The node platform, with a model file in memory for any location.
 * @param draft a second model, at `draft.gguf`
 */
export const memoryPlatform = (bytes: Uint8Array, draft?: Uint8Array): Platform => ({
  ...testPlatform(),
  modelFiles: async (location) =>
    draft && location === 'draft.gguf'
      ? memoryFiles({ 'draft.gguf': draft }, 'draft.gguf')
      : memoryFiles({ 'memory.gguf': bytes }, 'memory.gguf'),
});

/** An engine on the real adapter for a model in memory, with a draft model. */
export const loadWithDraft = (
  bytes: Uint8Array,
  draft: Uint8Array,
  options: Omit<EngineOptions, 'model' | 'draft'> = {},
): Promise<ResidentEngine> =>
  loadEngine(memoryPlatform(bytes, draft), { ...options, model: 'memory.gguf', draft: 'draft.gguf' });

/** An engine on the real adapter for a model in memory. */
export const loadFromMemory = (
  bytes: Uint8Array,
  options: Omit<EngineOptions, 'model'> = {},
): Promise<ResidentEngine> => loadEngine(memoryPlatform(bytes), { ...options, model: 'memory.gguf' });
