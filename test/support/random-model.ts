/** Models of real shapes with random weights: what a bench or a memory test needs, in seconds and from nothing. */
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

export interface ModelShape {
  readonly architecture: 'llama' | 'qwen2' | 'qwen3';
  readonly layers: number;
  readonly embedding: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headSize: number;
  readonly feedForward: number;
  /** At least 260: the bytes, one merged pair and three special tokens. */
  readonly vocab: number;
  readonly context: number;
  /** Of the matrices; vectors are F32. */
  readonly type: GgufType;
  readonly tiedEmbeddings?: boolean;
  readonly ropeBase?: number;
  readonly seed?: number;
}

/** The shapes of models that people run. */
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
} as const satisfies Record<string, Omit<ModelShape, 'type'>>;

/** Writes the model to `path`. The same shape and seed give the same file. */
export const writeRandomModel = (path: string, shape: ModelShape): Promise<void> =>
  writeGguf(path, { metadata: metadataOf(shape), tensors: tensorsOf(shape) });

const metadataOf = (shape: ModelShape): [string, GgufValue][] => {
  const { architecture: prefix } = shape;
  // Byte pair encoders expect at least one pair.
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
    [`${prefix}.rope.dimension_count`]: u32(shape.headSize),
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

/** GPT-2's printable stand-ins for the 256 bytes, in byte order. */
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
  const matrix = (name: string, rows: number, columns: number): GgufTensor => ({
    name,
    type: shape.type,
    shape: [rows, columns],
    data: () => randomBlocks(shape.type, { rows, columns }, 1 / Math.sqrt(columns), random),
  });
  const vector = (name: string, length: number, value: number): GgufTensor => ({
    name,
    type: 'F32',
    shape: [length],
    data: () => new Uint8Array(new Float32Array(length).fill(value).buffer),
  });
  const layer = (index: number): GgufTensor[] => {
    const at = (part: string) => `blk.${index}.${part}`;
    const tensors = [
      vector(at('attn_norm.weight'), embedding, 1),
      matrix(at('attn_q.weight'), shape.heads * headSize, embedding),
      matrix(at('attn_k.weight'), shape.kvHeads * headSize, embedding),
      matrix(at('attn_v.weight'), shape.kvHeads * headSize, embedding),
      matrix(at('attn_output.weight'), embedding, shape.heads * headSize),
      vector(at('ffn_norm.weight'), embedding, 1),
      matrix(at('ffn_gate.weight'), shape.feedForward, embedding),
      matrix(at('ffn_up.weight'), shape.feedForward, embedding),
      matrix(at('ffn_down.weight'), embedding, shape.feedForward),
    ];
    if (shape.architecture === 'qwen2') {
      tensors.push(vector(at('attn_q.bias'), shape.heads * headSize, 0.01));
      tensors.push(vector(at('attn_k.bias'), shape.kvHeads * headSize, 0.01));
      tensors.push(vector(at('attn_v.bias'), shape.kvHeads * headSize, 0.01));
    }
    if (shape.architecture === 'qwen3') {
      tensors.push(
        vector(at('attn_q_norm.weight'), headSize, 1),
        vector(at('attn_k_norm.weight'), headSize, 1),
      );
    }
    return tensors;
  };
  return [
    matrix('token_embd.weight', shape.vocab, embedding),
    ...Array.from({ length: shape.layers }, (_, index) => layer(index)).flat(),
    vector('output_norm.weight', embedding, 1),
    ...(shape.tiedEmbeddings ? [] : [matrix('output.weight', shape.vocab, embedding)]),
  ];
};

/** 32 random bits a call. */
const xorshift = (seed: number): (() => number) => {
  let state = seed | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
};
