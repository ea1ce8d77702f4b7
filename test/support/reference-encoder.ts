/** An encoder of the BERT family on the CPU oracle, the reference for embeddings of the GPU. */
import {
  applyRope,
  attention,
  dequantize,
  embed,
  gatedActivation,
  gelu,
  layerNorm,
  matmul,
  pool,
  roundToF16,
  type Values,
} from '../../kernels/reference/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';

const poolings = ['mean', 'cls', 'last'] as const;

/** @returns the unit vector of a text: [width]; keys and values are rounded as they are in a cache. */
export async function referenceEmbedding(file: ModelFile, ids: readonly number[]): Promise<Float64Array> {
  const architecture = String(file.metadata.get('general.architecture'));
  const number = (key: string) => Number(file.metadata.get(`${architecture}.${key}`));
  const read = async (name: string): Promise<Values | undefined> => {
    const info = file.tensors.get(name);
    if (!info) return undefined;
    const elements = info.shape.reduce((product, size) => product * size, 1);
    const rows = info.shape.length === 1 ? 1 : (info.shape[0] as number);
    return dequantize(info.type, await file.readRows(info, 0, rows), elements);
  };
  const cols = number('embedding_length');
  const heads = number('attention.head_count');
  const headDim = cols / heads;
  const rows = ids.length;
  const positions = ids.map((_, t) => t);
  const linear = async (name: string, x: Float64Array, residual?: Float64Array): Promise<Float64Array> => {
    const [outputs = 0, inputs = 0] = file.tensors.get(`${name}.weight`)?.shape ?? [];
    const weight = (await read(`${name}.weight`)) as Values;
    return matmul(
      x,
      weight,
      { tokens: rows, inputs, outputs },
      { bias: await read(`${name}.bias`), residual },
    );
  };
  const norm = async (name: string, x: Float64Array): Promise<Float64Array> => {
    const [weight, bias] = [await read(`${name}.weight`), await read(`${name}.bias`)] as [Values, Values];
    return layerNorm(x, weight, bias, { rows, cols, eps: number('attention.layer_norm_epsilon') });
  };

  let x = embed(ids, (await read('token_embd.weight')) as Values, cols);
  const places = await read('position_embd.weight');
  const types = await read('token_types.weight');
  x = x.map((value, at) => value + (places?.[at] ?? 0) + (types?.[at % cols] ?? 0));
  x = await norm('token_embd_norm', x);
  for (let n = 0; n < number('block_count'); n++) {
    const name = (part: string) => `blk.${n}.${part}`;
    const together = file.tensors.has(name('attn_qkv.weight'))
      ? await linear(name('attn_qkv'), x)
      : undefined;
    const parts: Float64Array[] = [];
    for (const [index, part] of ['q', 'k', 'v'].entries()) {
      const cut = (all: Float64Array) =>
        Float64Array.from({ length: rows * cols }, (_, at) => {
          const t = Math.floor(at / cols);
          return all[(t * 3 + index) * cols + (at % cols)] as number;
        });
      parts.push(together ? cut(together) : await linear(name(`attn_${part}`), x));
    }
    const turn = (values: Float64Array) =>
      architecture === 'bert'
        ? values
        : applyRope(
            values,
            positions,
            { heads, headDim },
            {
              style: 'neox',
              theta: number('rope.freq_base'),
              rotaryDim: headDim,
            },
          );
    const [q, k, v] = parts as [Float64Array, Float64Array, Float64Array];
    const shape = { heads, kvHeads: heads, headDim, scale: headDim ** -0.5, bidirectional: true };
    const seen = attention(turn(q), positions, turn(k).map(roundToF16), v.map(roundToF16), shape);
    x = await norm(name('attn_output_norm'), await linear(name('attn_output'), seen, x));
    const up = await linear(name('ffn_up'), x);
    const gated = file.tensors.has(name('ffn_gate.weight'));
    const active = gated ? gatedActivation(await linear(name('ffn_gate'), x), up) : gelu(up);
    x = await norm(name('layer_output_norm'), await linear(name('ffn_down'), active, x));
  }
  const mode = poolings[number('pooling_type') - 1] as (typeof poolings)[number];
  const row = pool(x, [rows], cols, mode);
  const length = Math.hypot(...row);
  return row.map((value) => value / length);
}
