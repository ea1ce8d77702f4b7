/** A Hugging Face folder of a tiny model as MLC would compile its weights, in memory. */
import { createHash } from 'node:crypto';

export type MlcQuantization = 'q4f16_1' | 'q4f32_1' | 'q3f16_1' | 'q0f16' | 'q0f32';
type Contents = Record<string, Uint8Array<ArrayBuffer>>;

interface Weight {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

interface Writing {
  readonly quantization: MlcQuantization;
  /** Truncates f32 values to bf16, as MLC stores them by default. */
  readonly cutFloats?: boolean;
  readonly change?: (config: Record<string, unknown>) => void;
}

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

export const readTinySafetensors = (bytes: Uint8Array): Map<string, Weight> => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start))) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  delete header['__metadata__'];
  return new Map(
    Object.entries(header).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [from, to],
        },
      ]) => {
        const raw = bytes.slice(start + from, start + to).buffer;
        const values =
          dtype === 'BF16'
            ? new Float32Array(Uint32Array.from(new Uint16Array(raw), (half) => half << 16).buffer)
            : dtype === 'F16'
              ? Float32Array.from(new Float16Array(raw))
              : new Float32Array(raw);
        return [name, { shape, values }];
      },
    ),
  );
};

const joinRows = (weights: readonly Weight[]): Weight => ({
  shape: [
    weights.reduce((sum, { shape }) => sum + (shape[0] ?? 0), 0),
    ...(weights[0]?.shape.slice(1) ?? []),
  ],
  values: Float32Array.from(weights.flatMap(({ values }) => [...values])),
});

/** The weights under MLC's names, merged as in MLC; Gemma's norms include the 1. */
const mlcWeights = (type: string, weights: ReadonlyMap<string, Weight>): Map<string, Weight> => {
  const out = new Map<string, Weight>();
  const joint = type === 'llama' || type === 'mistral' ? 'qkv_proj' : 'c_attn';
  for (const [name, weight] of weights) {
    const gemma = type.startsWith('gemma');
    let own = gemma ? `language_model.${name}` : name;
    if (type === 'phi3') {
      own = name
        .replace('model.layers', 'transformer.h')
        .replace('input_layernorm', 'ln')
        .replace('self_attn.o_proj', 'mixer.out_proj')
        .replace('self_attn', 'mixer')
        .replace('model.embed_tokens', 'transformer.embd')
        .replace('model.norm', 'transformer.norm');
    }
    const part = (other: string, from: string) => weights.get(name.replace(from, other)) ?? weight;
    if (/\.(k_proj|v_proj)\./.test(name) && !gemma) continue;
    if (/\.up_proj\./.test(name)) continue;
    if (/\.q_proj\./.test(name) && !gemma)
      out.set(
        own.replace('q_proj', joint),
        joinRows([weight, part('k_proj', 'q_proj'), part('v_proj', 'q_proj')]),
      );
    else if (/\.gate_proj\./.test(name))
      out.set(own.replace('gate_proj', 'gate_up_proj'), joinRows([weight, part('up_proj', 'gate_proj')]));
    else if (gemma && /norm/.test(name))
      out.set(own, { ...weight, values: weight.values.map((value) => value + 1) });
    else out.set(own, weight);
  }
  return out;
};

const floatBytes = (values: Float32Array, dtype: string, cut: boolean): Uint8Array => {
  if (dtype === 'float16') return new Uint8Array(Float16Array.from(values).buffer);
  if (!cut) return new Uint8Array(values.slice().buffer);
  return new Uint8Array(
    Uint16Array.from(new Uint32Array(values.slice().buffer), (bits) => bits >>> 16).buffer,
  );
};

/** One group: its scale, and the code of each weight. */
const quantizeGroup = (group: Float32Array, maxQuant: number, round: (scale: number) => number) => {
  const greatest = group.reduce((sofar, value) => Math.max(sofar, Math.abs(value)), 0);
  const scale = round(greatest / maxQuant);
  const quants = Array.from(group, (value) =>
    Math.min(2 * maxQuant, Math.max(0, Math.round(scale === 0 ? 0 : value / scale) + maxQuant)),
  );
  return { scale, quants };
};

const scaleRounding = (quantization: MlcQuantization, cut: boolean) => (scale: number) => {
  if (quantization !== 'q4f32_1') return Math.f16round(scale);
  if (!cut) return Math.fround(scale);
  return new Float32Array(
    Uint32Array.of(new Uint32Array(Float32Array.of(scale).buffer)[0]! & 0xffff0000).buffer,
  )[0]!;
};

/** A row's values after MLC's quantization. */
export const mlcRoundTrip = (
  row: Float32Array,
  { quantization, cutFloats = true }: Writing,
): Float32Array => {
  if (quantization === 'q0f16') return row.map(Math.f16round);
  if (quantization === 'q0f32')
    return cutFloats
      ? new Float32Array(new Uint32Array(row.slice().buffer).map((bits) => bits & 0xffff0000).buffer)
      : row;
  const [bits, width] = quantization === 'q3f16_1' ? [3, 40] : [4, 32];
  const maxQuant = 2 ** (bits - 1) - 1;
  const out = new Float32Array(row.length);
  for (let at = 0; at < row.length; at += width) {
    const { scale, quants } = quantizeGroup(
      row.subarray(at, at + width),
      maxQuant,
      scaleRounding(quantization, cutFloats),
    );
    quants.forEach((quant, index) => {
      out[at + index] = (quant - maxQuant) * scale;
    });
  }
  return out;
};

const quantizeMatrix = ({ shape, values }: Weight, writing: Writing) => {
  const { quantization, cutFloats = true } = writing;
  const [rows = 0, columns = 0] = shape;
  const [bits, width] = quantization === 'q3f16_1' ? [3, 40] : [4, 32];
  const each = Math.floor(32 / bits);
  const groups = Math.ceil(columns / width);
  const words = new Uint32Array(rows * groups * 4);
  const scales = new Float32Array(rows * groups);
  for (let row = 0; row < rows; row++) {
    for (let group = 0; group < groups; group++) {
      const from = row * columns + group * width;
      const slice = values.subarray(from, Math.min(from + width, (row + 1) * columns));
      const { scale, quants } = quantizeGroup(
        slice,
        2 ** (bits - 1) - 1,
        scaleRounding(quantization, cutFloats),
      );
      scales[row * groups + group] = scale;
      quants.forEach((quant, index) => {
        const word = (row * groups + group) * 4 + Math.floor(index / each);
        words[word] = (words[word]! | (quant << (bits * (index % each)))) >>> 0;
      });
    }
  }
  return { words, scales, wordShape: [rows, groups * 4], scaleShape: [rows, groups] };
};

/** @param folder of Hugging Face, by name */
export const mlcFolder = (folder: Readonly<Record<string, Uint8Array>>, writing: Writing): Contents => {
  const { quantization, cutFloats = true } = writing;
  const config = JSON.parse(new TextDecoder().decode(folder['config.json'])) as Record<string, unknown>;
  const type = String(config['model_type']);
  const weights = mlcWeights(type, readTinySafetensors(folder['model.safetensors'] ?? new Uint8Array(8)));
  const dtype = quantization.endsWith('f16') || quantization.includes('f16_') ? 'float16' : 'float32';
  const shards: { arrays: object[]; parts: Uint8Array[]; bytes: number }[] = [];
  const put = (name: string, shape: readonly number[], stored: string, bytes: Uint8Array) => {
    // Embeddings have their own shard; the rest has three arrays in each shard, with quants apart from scales.
    let shard = shards.at(-1);
    if (!shard || shard.arrays.length >= 3) shards.push((shard = { arrays: [], parts: [], bytes: 0 }));
    shard.arrays.push({
      name,
      shape,
      dtype: stored,
      format: cutFloats ? 'f32-to-bf16' : 'raw',
      nbytes: bytes.length,
      byteOffset: shard.bytes,
    });
    shard.parts.push(bytes);
    shard.bytes += bytes.length;
  };
  for (const [name, weight] of weights) {
    if (weight.shape.length === 2 && !quantization.startsWith('q0')) {
      const { words, scales, wordShape, scaleShape } = quantizeMatrix(weight, writing);
      const base = name.replace(/\.weight$/, '');
      put(`${base}.q_weight`, wordShape, 'uint32', new Uint8Array(words.buffer));
      put(`${base}.q_scale`, scaleShape, dtype, floatBytes(scales, dtype, cutFloats));
    } else put(name, weight.shape, dtype, floatBytes(weight.values, dtype, cutFloats));
  }
  const { rope_theta, max_position_embeddings, bos_token_id, eos_token_id, pad_token_id, ...rest } = config;
  const own = {
    ...rest,
    position_embedding_base: rope_theta,
    context_window_size: max_position_embeddings,
    prefill_chunk_size: 64,
    tensor_parallel_shards: 1,
  };
  const { vocab_size, ...text } = own as Record<string, unknown>;
  const chat: Record<string, unknown> = {
    version: '0.1.0',
    model_type: type,
    quantization,
    model_config: type.startsWith('gemma') ? { text_config: text, vocab_size } : own,
    vocab_size,
    context_window_size: max_position_embeddings,
    sliding_window_size: -1,
    bos_token_id,
    eos_token_id,
    pad_token_id,
    tokenizer_files: ['tokenizer.json', 'tokenizer_config.json'],
    conv_template: 'none',
  };
  writing.change?.(chat);
  const contents: Contents = {
    'mlc-chat-config.json': encode(chat),
    'tensor-cache.json': encode({
      metadata: { ParamSize: weights.size },
      records: shards.map(({ arrays, parts, bytes }, index) => ({
        dataPath: `params_shard_${index}.bin`,
        format: 'raw-shard',
        nbytes: bytes,
        records: arrays,
        md5sum: createHash('md5').update(Buffer.concat(parts)).digest('hex'),
      })),
    }),
  };
  for (const [index, { parts }] of shards.entries())
    contents[`params_shard_${index}.bin`] = new Uint8Array(Buffer.concat(parts));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    if (folder[name]) contents[name] = Uint8Array.from(folder[name]);
  return contents;
};
