/** Models of real shapes with random weights, generated in seconds for benchmarks and memory tests. */
import {
  type GgufTensor,
  type GgufType,
  type GgufValue,
  f32,
  scalars,
  text,
  texts,
  u32,
  writeGguf,
} from './gguf-writer.ts';
import { randomBlocks } from './random-blocks.ts';
import { gemma4Parts, type TinyGemma4 } from './tiny-gemma4.ts';
import { stateMetadata, stateTensors, type TinyState } from './tiny-state.ts';

export interface ModelShape {
  readonly architecture: 'gpt-oss' | 'lfm2' | 'llama' | 'qwen2' | 'qwen3' | 'qwen3moe' | 'qwen35' | 'gemma4';
  readonly layers: number;
  readonly embedding: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  /** At least 260: the bytes, one merged pair and three special tokens. */
  readonly vocab: number;
  readonly context: number;
  /** Type of the matrices; vectors are F32. */
  readonly type: GgufType;
  /** Experts in place of the dense feed-forward; of a separate type when specified. */
  readonly experts?: {
    readonly count: number;
    readonly used: number;
    readonly feedForward: number;
    readonly type?: GgufType;
  };
  /** Number of positions that a token attends to in every other layer. */
  readonly window?: number;
  readonly tiedEmbeddings?: boolean;
  readonly ropeBase?: number;
  /** Number of rotated elements of a head, when not all are. */
  readonly rotary?: number;
  /** Layers that keep a state instead of keys and values. */
  readonly state?: TinyState;
  /** Additional features of Gemma 4. */
  readonly gemma4?: TinyGemma4;
  readonly seed?: number;
  /** Layers after this many are computed but add nothing: such a model samples what its first layers alone would. */
  readonly telling?: number;
}

/** Shapes of commonly used models. */
export const realShapes = {
  qwen25_05b: {
    architecture: 'qwen2',
    layers: 24,
    embedding: 896,
    heads: 14,
    kvHeads: 2,
    headSize: 64,
    feedForward: 4864,
    vocab: 151_936,
    context: 32_768,
    tiedEmbeddings: true,
    ropeBase: 1_000_000,
  },
  qwen3_06b: {
    architecture: 'qwen3',
    layers: 28,
    embedding: 1024,
    heads: 16,
    kvHeads: 8,
    headSize: 128,
    feedForward: 3072,
    vocab: 151_936,
    context: 40_960,
    tiedEmbeddings: true,
    ropeBase: 1_000_000,
  },
  llama32_1b: {
    architecture: 'llama',
    layers: 16,
    embedding: 2048,
    heads: 32,
    kvHeads: 8,
    headSize: 64,
    feedForward: 8192,
    vocab: 128_256,
    context: 131_072,
    tiedEmbeddings: true,
    ropeBase: 500_000,
  },
  lfm2_350m: {
    architecture: 'lfm2',
    layers: 16,
    embedding: 1024,
    heads: 16,
    kvHeads: 8,
    headSize: 64,
    feedForward: 4608,
    vocab: 65_536,
    context: 128_000,
    tiedEmbeddings: true,
    ropeBase: 1_000_000,
    state: { kernel: 3, attending: [2, 5, 8, 10, 12, 14] },
  },
  qwen35_08b: {
    architecture: 'qwen35',
    layers: 24,
    embedding: 1024,
    heads: 8,
    kvHeads: 2,
    headSize: 256,
    rotary: 64,
    feedForward: 3584,
    vocab: 248_320,
    context: 262_144,
    tiedEmbeddings: true,
    ropeBase: 10_000_000,
    state: { every: 4, kernel: 4, keyHeads: 16, valueHeads: 16, keyDim: 128, valueDim: 128 },
  },
} as const satisfies Record<string, Omit<ModelShape, 'type'>>;

/** Writes the model to `path`. The same shape and seed give the same file. */
export const writeRandomModel = (path: string, shape: ModelShape): Promise<void> =>
  writeGguf(
    path,
    shape.gemma4 ? gemma4Of(shape) : { metadata: metadataOf(shape), tensors: tensorsOf(shape) },
  );

const gemma4Of = ({ gemma4, embedding: width, headSize: headDim, seed = 1, ...shape }: ModelShape) =>
  gemma4Parts({ ...shape, width, headDim, seed, ...gemma4 }, xorshift(seed));

const withWidth = (shape: ModelShape) => ({ ...shape, width: shape.embedding });

const metadataOf = (shape: ModelShape): [string, GgufValue][] => {
  const { architecture: prefix } = shape;
  // Byte pair encoders require at least one pair.
  const tokens = [...byteTokens(), 'th', '<|endoftext|>', '<|im_start|>', '<|im_end|>'];
  const control = tokens.length - 3;
  while (tokens.length < shape.vocab) tokens.push(`<unused${tokens.length}>`);
  const entries: Record<string, GgufValue> = {
    'general.architecture': text(prefix),
    'general.name': text(`random ${prefix}`),
    [`${prefix}.vocab_size`]: u32(shape.vocab),
    [`${prefix}.context_length`]: u32(shape.context),
    [`${prefix}.embedding_length`]: u32(shape.embedding),
    [`${prefix}.block_count`]: u32(shape.layers),
    [`${prefix}.feed_forward_length`]: u32(shape.feedForward),
    [`${prefix}.attention.head_count`]: u32(shape.heads),
    [`${prefix}.attention.head_count_kv`]: u32(shape.kvHeads),
    [`${prefix}.attention.key_length`]: u32(shape.headSize),
    [`${prefix}.attention.value_length`]: u32(shape.headSize),
    [`${prefix}.attention.layer_norm_rms_epsilon`]: f32(1e-6),
    [`${prefix}.rope.freq_base`]: f32(shape.ropeBase ?? 10_000),
    [`${prefix}.rope.dimension_count`]: u32(shape.rotary ?? shape.headSize),
    ...Object.fromEntries(
      Object.entries(stateMetadata(withWidth(shape))).map(([key, value]) => [`${prefix}.${key}`, value]),
    ),
    ...(shape.window ? { [`${prefix}.attention.sliding_window`]: u32(shape.window) } : {}),
    ...(shape.experts
      ? {
          [`${prefix}.expert_count`]: u32(shape.experts.count),
          [`${prefix}.expert_used_count`]: u32(shape.experts.used),
          [`${prefix}.expert_feed_forward_length`]: u32(shape.experts.feedForward),
        }
      : {}),
    'tokenizer.ggml.model': text('gpt2'),
    'tokenizer.ggml.pre': text('qwen2'),
    'tokenizer.ggml.tokens': texts(tokens),
    // 1 is a normal token, 3 a control token, 5 an unused one.
    'tokenizer.ggml.token_type': scalars(
      'i32',
      tokens.map((_, id) => (id < control ? 1 : id < control + 3 ? 3 : 5)),
    ),
    'tokenizer.ggml.merges': texts(['t h']),
    'tokenizer.ggml.bos_token_id': u32(control),
    'tokenizer.ggml.eos_token_id': u32(control + 2),
  };
  return Object.entries(entries);
};

/** GPT-2's printable substitutes for the 256 bytes, in byte order. */
const byteTokens = (): string[] => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
};

const tensorsOf = (shape: ModelShape): GgufTensor[] => {
  const random = xorshift(shape.seed ?? 1);
  const { embedding, headSize } = shape;
  const isGptOss = shape.architecture === 'gpt-oss';
  const isQwen35 = shape.architecture === 'qwen35';
  const matrix = (name: string, rows: number, columns: number): GgufTensor => ({
    name,
    type: shape.type,
    shape: [rows, columns],
    data: () => randomBlocks(shape.type, { rows, columns }, 1 / Math.sqrt(columns), random),
  });
  /** Matrices of experts, stacked by rows. */
  const expertsOf = (at: (part: string) => string): GgufTensor[] => {
    if (!shape.experts) return [];
    const { count, feedForward, type = shape.type } = shape.experts;
    const stack = (name: string, rows: number, columns: number): GgufTensor => ({
      name: at(name),
      type,
      shape: [count, rows, columns],
      data: () => randomBlocks(type, { rows: count * rows, columns }, 1 / Math.sqrt(columns), random),
    });
    const router = { rows: count, columns: embedding };
    const stacks = {
      ffn_gate_exps: stack('ffn_gate_exps.weight', feedForward, embedding),
      ffn_up_exps: stack('ffn_up_exps.weight', feedForward, embedding),
      ffn_down_exps: stack('ffn_down_exps.weight', embedding, feedForward),
    };
    const biases = Object.entries(stacks).map(
      ([
        part,
        {
          shape: [, rows = 0],
        },
      ]): GgufTensor => ({
        ...vector(at(`${part}.bias`), count * rows, 0.01),
        shape: [count, rows],
      }),
    );
    return [
      {
        name: at('ffn_gate_inp.weight'),
        type: 'F32',
        shape: [count, embedding],
        data: () => randomBlocks('F32', router, 1 / Math.sqrt(embedding), random),
      },
      ...Object.values(stacks),
      ...(shape.architecture === 'gpt-oss' ? [vector(at('ffn_gate_inp.bias'), count, 0.01), ...biases] : []),
    ];
  };
  const silent = (tensor: GgufTensor): GgufTensor => ({ ...tensor, data: () => tensor.data().fill(0) });
  const filled = (name: string, dimensions: readonly number[], value: number): GgufTensor => ({
    name,
    type: 'F32',
    shape: dimensions,
    data: () => {
      const length = dimensions.reduce((product, size) => product * size, 1);
      return new Uint8Array(new Float32Array(length).fill(value).buffer);
    },
  });
  const vector = (name: string, length: number, value: number) => filled(name, [length], value);
  const layer = (index: number): GgufTensor[] => {
    const at = (part: string) => `blk.${index}.${part}`;
    const states = stateTensors(withWidth(shape), index)?.map((one) =>
      'rows' in one
        ? matrix(`${one.name}.weight`, one.rows, one.columns)
        : filled(one.name, one.shape, one.around || 0.5),
    );
    const queries = (isQwen35 ? 2 : 1) * shape.heads;
    const tensors = [
      vector(at('attn_norm.weight'), embedding, 1),
      ...(states ?? [
        matrix(at('attn_q.weight'), queries * headSize, embedding),
        matrix(at('attn_k.weight'), shape.kvHeads * headSize, embedding),
        matrix(at('attn_v.weight'), shape.kvHeads * headSize, embedding),
        matrix(at('attn_output.weight'), embedding, shape.heads * headSize),
      ]),
      vector(at(isGptOss || isQwen35 ? 'post_attention_norm.weight' : 'ffn_norm.weight'), embedding, 1),
      ...(shape.experts
        ? expertsOf(at)
        : [
            matrix(at('ffn_gate.weight'), shape.feedForward, embedding),
            matrix(at('ffn_up.weight'), shape.feedForward, embedding),
            matrix(at('ffn_down.weight'), embedding, shape.feedForward),
          ]),
    ];
    if (isGptOss) {
      tensors.push(vector(at('attn_sinks.weight'), shape.heads, 0.1));
      tensors.push(vector(at('attn_output.bias'), embedding, 0.01));
    }
    if (shape.architecture === 'qwen2' || isGptOss) {
      tensors.push(vector(at('attn_q.bias'), shape.heads * headSize, 0.01));
      tensors.push(vector(at('attn_k.bias'), shape.kvHeads * headSize, 0.01));
      tensors.push(vector(at('attn_v.bias'), shape.kvHeads * headSize, 0.01));
    }
    if (['qwen3', 'qwen3moe', 'lfm2', 'qwen35'].includes(shape.architecture) && !states) {
      tensors.push(
        vector(at('attn_q_norm.weight'), headSize, 1),
        vector(at('attn_k_norm.weight'), headSize, 1),
      );
    }
    return index < (shape.telling ?? shape.layers)
      ? tensors
      : tensors.map((one) => (/attn_output|ffn_down/.test(one.name) ? silent(one) : one));
  };
  return [
    matrix('token_embd.weight', shape.vocab, embedding),
    ...Array.from({ length: shape.layers }, (_, index) => layer(index)).flat(),
    vector(shape.architecture === 'lfm2' ? 'token_embd_norm.weight' : 'output_norm.weight', embedding, 1),
    ...(shape.tiedEmbeddings ? [] : [matrix('output.weight', shape.vocab, embedding)]),
  ];
};

/** 32 random bits for each call. */
const xorshift = (seed: number): (() => number) => {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
};
