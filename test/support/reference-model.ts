/** A whole model on the CPU oracle: the truth that logits and greedy text on the GPU are held against. */
import {
  applyRope,
  attention,
  dequantize,
  embed,
  gatedActivation,
  matmul,
  type Rope,
  rmsNorm,
  roundToF16,
  type Values,
} from '../../kernels/reference/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';

interface Layer {
  attnNorm: Values;
  q: Linear;
  k: Linear;
  v: Linear;
  output: Linear;
  /** [headDim] each; qwen3 only. */
  qNorm: Values | undefined;
  kNorm: Values | undefined;
  ffnNorm: Values;
  gate: Linear;
  up: Linear;
  down: Linear;
}

interface Linear {
  /** [outputs, inputs] */
  weight: Values;
  bias: Values | undefined;
  inputs: number;
  outputs: number;
}

interface Weights {
  embedding: Values;
  layers: Layer[];
  outputNorm: Values;
  output: Linear;
  /** [rotaryDim / 2]; Llama 3 only. */
  ropeFactors: Values | undefined;
}

interface Shape {
  width: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  eps: number;
  rope: Rope;
}

const ropeStyles = new Map<string, Rope['style']>([
  ['llama', 'interleaved'],
  ['qwen2', 'neox'],
  ['qwen3', 'neox'],
]);

type CacheType = 'F64' | 'F16';

/** One sequence with its keys and values; a further sequence is a `fork()`. */
export class ReferenceModel {
  readonly vocabSize: number;
  readonly #shape: Shape;
  readonly #weights: Weights;
  readonly #cache: CacheType;
  /** Per layer, [cached, kvHeads, headDim]. */
  #keys: Float64Array[];
  #values: Float64Array[];
  #position = 0;

  private constructor(shape: Shape, weights: Weights, cache: CacheType) {
    this.#shape = shape;
    this.#weights = weights;
    this.#cache = cache;
    this.#keys = weights.layers.map(() => new Float64Array(0));
    this.#values = weights.layers.map(() => new Float64Array(0));
    this.vocabSize = weights.output.outputs;
  }

  /** @param cache what keys and values are rounded to when they are kept; F16 is what the GPU does */
  static async load(file: ModelFile, cache: CacheType = 'F64'): Promise<ReferenceModel> {
    const shape = readShape(file);
    const weights = await readWeights(file);
    const rope = { ...shape.rope, freqFactors: weights.ropeFactors };
    return new ReferenceModel({ ...shape, rope }, weights, cache);
  }

  /** A new empty sequence on the same weights. */
  fork(): ReferenceModel {
    return new ReferenceModel(this.#shape, this.#weights, this.#cache);
  }

  /** Appends one token. @returns its logits, [vocab] */
  step(token: number): Float64Array {
    return this.forward([token])[0]!;
  }

  /** Appends tokens. @returns the logits of each, [vocab] */
  forward(tokens: readonly number[]): Float64Array[] {
    const { width, eps } = this.#shape;
    const { embedding, layers, outputNorm, output } = this.#weights;
    const rows = tokens.length;
    let x: Float64Array = embed(tokens, embedding, width);
    for (const [index, layer] of layers.entries()) {
      x = this.#attend(index, layer, x, rows);
      const normed = rmsNorm(x, layer.ffnNorm, { rows, cols: width, eps });
      const gated = gatedActivation(linear(layer.gate, normed, rows), linear(layer.up, normed, rows));
      x = linear(layer.down, gated, rows, x);
    }
    this.#position += rows;
    const logits = linear(output, rmsNorm(x, outputNorm, { rows, cols: width, eps }), rows);
    return tokens.map((_, t) => logits.slice(t * this.vocabSize, (t + 1) * this.vocabSize));
  }

  #attend(index: number, layer: Layer, x: Float64Array, rows: number): Float64Array {
    const { width, heads, kvHeads, headDim, eps, rope } = this.#shape;
    const positions = Array.from({ length: rows }, (_, t) => this.#position + t);
    const normed = rmsNorm(x, layer.attnNorm, { rows, cols: width, eps });
    let q: Float64Array = linear(layer.q, normed, rows);
    let k: Float64Array = linear(layer.k, normed, rows);
    if (layer.qNorm) q = rmsNorm(q, layer.qNorm, { rows: rows * heads, cols: headDim, eps });
    if (layer.kNorm) k = rmsNorm(k, layer.kNorm, { rows: rows * kvHeads, cols: headDim, eps });
    q = applyRope(q, positions, { heads, headDim }, rope);
    k = applyRope(k, positions, { heads: kvHeads, headDim }, rope);
    const kept = (fresh: Float64Array) => (this.#cache === 'F16' ? fresh.map(roundToF16) : fresh);
    const keys = append(this.#keys[index]!, kept(k));
    const values = append(this.#values[index]!, kept(linear(layer.v, normed, rows)));
    this.#keys[index] = keys;
    this.#values[index] = values;
    const scale = 1 / Math.sqrt(headDim);
    const attended = attention(q, positions, keys, values, { heads, kvHeads, headDim, scale });
    return linear(layer.output, attended, rows, x);
  }
}

/** The logits of every position of a prompt, each [vocab]. */
export async function referenceForward(
  file: ModelFile,
  tokenIds: readonly number[],
): Promise<Float64Array[]> {
  return (await ReferenceModel.load(file)).forward(tokenIds);
}

function linear(layer: Linear, x: Float64Array, tokens: number, residual?: Float64Array): Float64Array {
  const { weight, bias, inputs, outputs } = layer;
  return matmul(x, weight, { tokens, inputs, outputs }, { bias, residual });
}

function append(cache: Float64Array, rows: Float64Array): Float64Array {
  const out = new Float64Array(cache.length + rows.length);
  out.set(cache);
  out.set(rows, cache.length);
  return out;
}

function readShape(file: ModelFile): Shape {
  const architecture = String(file.metadata.get('general.architecture'));
  const style = ropeStyles.get(architecture);
  if (style === undefined) {
    throw new Error(`the reference model knows ${[...ropeStyles.keys()].join(', ')}, not '${architecture}'`);
  }
  const number = (key: string, otherwise?: number): number => {
    const value = file.metadata.get(`${architecture}.${key}`) ?? otherwise;
    if (value === undefined) throw new Error(`${file.name} has no ${architecture}.${key}`);
    return Number(value);
  };
  const width = number('embedding_length');
  const heads = number('attention.head_count');
  const headDim = number('attention.key_length', width / heads);
  const scaling = file.metadata.get(`${architecture}.rope.scaling.type`) ?? 'none';
  if (scaling !== 'none' && scaling !== 'linear') {
    throw new Error(`the reference model has no RoPE scaling '${String(scaling)}' (it has none, linear)`);
  }
  return {
    width,
    heads,
    headDim,
    kvHeads: number('attention.head_count_kv', heads),
    eps: number('attention.layer_norm_rms_epsilon'),
    rope: {
      style,
      theta: number('rope.freq_base', 10000),
      rotaryDim: number('rope.dimension_count', headDim),
      linearFactor: scaling === 'linear' ? number('rope.scaling.factor') : 1,
    },
  };
}

async function readWeights(file: ModelFile): Promise<Weights> {
  const optional = async (name: string): Promise<Values | undefined> => {
    const info = file.tensors.get(name);
    if (info === undefined) return undefined;
    const elements = info.shape.reduce((product, size) => product * size, 1);
    const rows = info.shape.length === 1 ? 1 : elements / info.shape[info.shape.length - 1]!;
    return dequantize(info.type, await file.readRows(info, 0, rows), elements);
  };
  const required = async (name: string): Promise<Values> => {
    const values = await optional(name);
    if (values === undefined) throw new Error(`${file.name} has no tensor ${name}`);
    return values;
  };
  const matrix = async (name: string): Promise<Linear> => {
    const weight = await required(`${name}.weight`);
    const [outputs, inputs] = file.tensors.get(`${name}.weight`)!.shape;
    return { weight, bias: await optional(`${name}.bias`), inputs: inputs!, outputs: outputs! };
  };
  const layers: Layer[] = [];
  const architecture = String(file.metadata.get('general.architecture'));
  for (let n = 0; n < Number(file.metadata.get(`${architecture}.block_count`)); n++) {
    layers.push({
      attnNorm: await required(`blk.${n}.attn_norm.weight`),
      q: await matrix(`blk.${n}.attn_q`),
      k: await matrix(`blk.${n}.attn_k`),
      v: await matrix(`blk.${n}.attn_v`),
      output: await matrix(`blk.${n}.attn_output`),
      qNorm: await optional(`blk.${n}.attn_q_norm.weight`),
      kNorm: await optional(`blk.${n}.attn_k_norm.weight`),
      ffnNorm: await required(`blk.${n}.ffn_norm.weight`),
      gate: await matrix(`blk.${n}.ffn_gate`),
      up: await matrix(`blk.${n}.ffn_up`),
      down: await matrix(`blk.${n}.ffn_down`),
    });
  }
  return {
    embedding: await required('token_embd.weight'),
    layers,
    outputNorm: await required('output_norm.weight'),
    // Tied: the embedding table is the output matrix where the file has none.
    output: await matrix(file.tensors.has('output.weight') ? 'output' : 'token_embd'),
    ropeFactors: await optional('rope_freqs.weight'),
  };
}
