/** Encoders of a few kilobytes with random weights, as GGUF bytes. */
import { gumbel, quantize } from '../../kernels/reference/index.ts';
import { f32, type GgufTensor, type GgufValue, ggufBytes, text, u32 } from './gguf-writer.ts';
import { byteTokenizer, type ModelParts } from './tiny-model.ts';

export interface TinyEncoder {
  readonly architecture: 'bert' | 'nomic-bert';
  readonly layers?: number;
  readonly width?: number;
  readonly heads?: number;
  readonly feedForward?: number;
  readonly vocab?: number;
  readonly context?: number;
  /** Type of the matrices; positions and token types are F32, as converters leave them. */
  readonly type?: 'F32' | 'F16' | 'Q8_0';
  /** The number in GGUF; 0 leaves it out. */
  readonly pooling?: number;
  /** `token_types`. */
  readonly typed?: boolean;
  readonly seed?: number;
}

export const tinyEncoder = (shape: TinyEncoder): Uint8Array<ArrayBuffer> =>
  ggufBytes(tinyEncoderParts(shape));

/** Metadata and tensors of an encoder; the tensors' data is made when it is read. */
export function tinyEncoderParts(shape: TinyEncoder): ModelParts {
  const { architecture, layers = 2, width = 64, heads = 2, feedForward = 96, vocab = 288 } = shape;
  const { context = 64, type = 'F32', pooling = 1, typed = true, seed = 1 } = shape;
  const tensors: GgufTensor[] = [];
  const add = (name: string, dimensions: readonly number[], of: typeof type, scale: number, around = 0) => {
    const length = dimensions.reduce((product, size) => product * size, 1);
    const draw = seed * 1000 + tensors.length;
    const values = () =>
      Float32Array.from({ length }, (_, i) => around + scale * (gumbel(draw, 1, i) - 0.5772));
    tensors.push({ name, type: of, shape: dimensions, data: () => quantize(of, values()) });
  };
  const bert = architecture === 'bert';
  const linear = (part: string, rows: number, columns: number) => {
    add(`${part}.weight`, [rows, columns], type, 1 / Math.sqrt(columns));
    if (bert) add(`${part}.bias`, [rows], 'F32', 0.2);
  };
  const norm = (part: string) => {
    add(`${part}.weight`, [width], 'F32', 0.2, 1);
    add(`${part}.bias`, [width], 'F32', 0.2);
  };
  add('token_embd.weight', [vocab, width], type, 1);
  if (bert) add('position_embd.weight', [context, width], 'F32', 0.5);
  if (typed) add('token_types.weight', [2, width], 'F32', 0.5);
  norm('token_embd_norm');
  for (let n = 0; n < layers; n++) {
    const name = (part: string) => `blk.${n}.${part}`;
    if (bert) for (const part of ['q', 'k', 'v']) linear(name(`attn_${part}`), width, width);
    else linear(name('attn_qkv'), 3 * width, width);
    linear(name('attn_output'), width, width);
    norm(name('attn_output_norm'));
    if (!bert) linear(name('ffn_gate'), feedForward, width);
    linear(name('ffn_up'), feedForward, width);
    linear(name('ffn_down'), width, feedForward);
    norm(name('layer_output_norm'));
  }
  const members: Record<string, GgufValue> = {
    context_length: u32(context),
    embedding_length: u32(width),
    block_count: u32(layers),
    feed_forward_length: u32(feedForward),
    'attention.head_count': u32(heads),
    'attention.layer_norm_epsilon': f32(1e-12),
    'attention.causal': { type: 'bool', value: false },
    ...(bert ? {} : { 'rope.freq_base': f32(1000) }),
    ...(pooling > 0 ? { pooling_type: u32(pooling) } : {}),
  };
  const metadata: [string, GgufValue][] = [
    ['general.architecture', text(architecture)],
    ['general.name', text(`tiny ${architecture}`)],
    ...Object.entries(members).map(([key, value]): [string, GgufValue] => [`${architecture}.${key}`, value]),
    ...byteTokenizer(vocab),
  ];
  return { metadata, tensors };
}
