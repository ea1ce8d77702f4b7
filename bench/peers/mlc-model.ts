import { createHash } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ModelShape } from '../../test/support/random-model.ts';
import { nibbleScale, randomWords } from './random.ts';

/**
 * 4-bit blocks of 32 weights. f16 or f32 is the type of the scales, of weights that are not matrices, and of the
 * activations.
 */
export type MlcQuantization = 'q4f16_1' | 'q4f32_1';

interface MlcWeight {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: 'uint32' | 'float16' | 'float32';
  readonly nbytes: number;
  /** Generates the data on demand, so that the model is never completely in memory. */
  data(): Uint32Array | Float16Array | Float32Array;
}

/** A placeholder: prompts are token ids, so the tokenizer is never used. */
const emptyTokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [],
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: null,
  model: { type: 'WordLevel', vocab: { '?': 0 }, unk_token: '?' },
};

/** Enough for every prompt and answer of the bench. */
const contextWindow = 1024;
const blockSize = 32;

/**
 * Writes a model folder for web-llm: `mlc-chat-config.json`, `tensor-cache.json` under both of its names, its shards and a tokenizer. Weights
 * are random, with Qwen2's names and fusions: q, k and v as `c_attn`, gate and up as `gate_up_proj`.
 */
export async function writeMlcModel(
  folder: string,
  shape: ModelShape,
  quantization: MlcQuantization,
): Promise<void> {
  // Written to a temporary name, so that an aborted run leaves no partial folder.
  const partial = `${folder}.${process.pid}.part`;
  await mkdir(partial, { recursive: true });
  const records: object[] = [];
  for (const [index, weights] of mlcShards(shape, quantization).entries()) {
    const dataPath = `params_shard_${index}.bin`;
    const data = Buffer.concat(weights.map((one) => new Uint8Array(one.data().buffer)));
    await writeFile(join(partial, dataPath), data);
    const md5sum = createHash('md5').update(data).digest('hex');
    const format = 'raw-shard';
    records.push({ dataPath, format, nbytes: data.length, records: recordsOf(weights), md5sum });
  }
  const files = {
    'mlc-chat-config.json': chatConfig(shape, quantization),
    'tensor-cache.json': { metadata: {}, records },
    // Releases before 0.2.80.
    'ndarray-cache.json': { metadata: {}, records },
    'tokenizer.json': emptyTokenizer,
  };
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(partial, name), JSON.stringify(content));
  }
  await rm(folder, { recursive: true, force: true });
  await rename(partial, folder);
}

/** Records of the weights of a shard with their byte offsets. */
function recordsOf(weights: readonly MlcWeight[]): object[] {
  let byteOffset = 0;
  return weights.map(({ name, shape, dtype, nbytes }) => {
    const record = { name, shape, dtype, format: 'raw', nbytes, byteOffset };
    byteOffset += nbytes;
    return record;
  });
}

/** The weights of each shard: the embedding, one shard per block, the final norm. */
export function mlcShards(shape: ModelShape, quantization: MlcQuantization): MlcWeight[][] {
  const { embedding, heads, kvHeads, headSize, feedForward, vocab, layers } = shape;
  const random = randomWords(1);
  const vector = (name: string, length: number, value: number) => floats(name, [length], value, quantization);
  const matrix = (name: string, rows: number, columns: number): MlcWeight[] => {
    const words = (rows * columns) / 8;
    const scales = [rows, columns / blockSize];
    return [
      {
        name: `${name}.q_weight`,
        shape: [rows, columns / 8],
        dtype: 'uint32',
        nbytes: 4 * words,
        data: () => random(words),
      },
      floats(`${name}.q_scale`, scales, nibbleScale(columns), quantization),
    ];
  };
  const block = (layer: number): MlcWeight[] => {
    const at = (part: string) => `model.layers.${layer}.${part}`;
    const qkv = (heads + 2 * kvHeads) * headSize;
    return [
      vector(at('input_layernorm.weight'), embedding, 1),
      ...matrix(at('mlp.down_proj'), embedding, feedForward),
      ...matrix(at('mlp.gate_up_proj'), 2 * feedForward, embedding),
      vector(at('post_attention_layernorm.weight'), embedding, 1),
      vector(at('self_attn.c_attn.bias'), qkv, 0.01),
      ...matrix(at('self_attn.c_attn'), qkv, embedding),
      ...matrix(at('self_attn.o_proj'), embedding, heads * headSize),
    ];
  };
  return [
    matrix('model.embed_tokens', vocab, embedding),
    ...Array.from({ length: layers }, (_, layer) => block(layer)),
    [vector('model.norm.weight', embedding, 1)],
  ];
}

function floats(
  name: string,
  shape: readonly number[],
  value: number,
  quantization: MlcQuantization,
): MlcWeight {
  const [dtype, Floats] =
    quantization === 'q4f16_1' ? (['float16', Float16Array] as const) : (['float32', Float32Array] as const);
  const length = shape.reduce((product, one) => product * one, 1);
  const nbytes = length * Floats.BYTES_PER_ELEMENT;
  return { name, shape, dtype, nbytes, data: () => new Floats(length).fill(value) };
}

const chatConfig = (shape: ModelShape, quantization: MlcQuantization): object => ({
  version: '0.1.0',
  model_type: 'qwen2',
  quantization,
  vocab_size: shape.vocab,
  context_window_size: contextWindow,
  sliding_window_size: -1,
  attention_sink_size: -1,
  // Greedy decoding.
  temperature: 0,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  tokenizer_files: ['tokenizer.json'],
  tokenizer_info: {
    token_postproc_method: 'byte_level',
    prepend_space_in_encode: false,
    strip_space_in_decode: false,
  },
  conv_template: {
    name: 'none',
    system_template: '{system_message}',
    system_message: '',
    roles: { user: 'user', assistant: 'assistant', tool: 'tool' },
    seps: ['\n'],
    stop_str: [],
    stop_token_ids: [],
  },
});
