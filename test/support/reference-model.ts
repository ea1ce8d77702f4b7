/** A whole model on the CPU oracle, the reference for logits and greedy text of the GPU. */
import {
  type Activation,
  applyRope,
  attention,
  dequantizeRows,
  embed,
  type ExpertActivation,
  expertActivation,
  expertMatmul,
  expertSum,
  gatedActivation,
  matmul,
  type Rope,
  rmsNorm,
  roundToF16,
  route,
  sigmoidGate,
  type Values,
} from '../../kernels/reference/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { type KeptState, readStateLayer, rowsOfEach, type StateLayer } from './reference-state.ts';

interface Layer {
  attnNorm: Values;
  q: Linear;
  k: Linear;
  v: Linear;
  output: Linear;
  /** [headDim] each; qwen3 and gemma3. */
  qNorm: Values | undefined;
  kNorm: Values | undefined;
  /** Weights of norms of what is added; gemma3 only. */
  postAttnNorm: Values | undefined;
  postFfnNorm: Values | undefined;
  /** One attention sink for each head; gpt-oss only. */
  sinks: Values | undefined;
  /** Gate of attention's output; qwen35 only. */
  outputGate: Linear | undefined;
  /** Replaces attention. */
  state: StateLayer | undefined;
  ffnNorm: Values;
  feedForward: { gate: Linear; up: Linear; down: Linear } | Experts;
}

/** A mixture of experts; their weights are stacked. */
interface Experts {
  router: Linear;
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
}

interface Shape {
  width: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  eps: number;
  activation: Activation;
  embeddingScale: number;
  attentionScale: number;
  /** Factor of what is added to the residual stream. */
  residualScale: number;
  logitScale: number;
  /** Experts of each token. */
  experts: { used: number; ofAll: boolean; activation: ExpertActivation };
  /** Rotation and window of a layer. */
  layer(index: number): { rope: Rope | undefined; window: number };
}

const ropeStyles = new Map<string, Rope['style']>([
  ['llama', 'interleaved'],
  ['qwen2', 'neox'],
  ['qwen3', 'neox'],
  ['qwen3moe', 'neox'],
  ['gpt-oss', 'neox'],
  ['gemma3', 'neox'],
  ['phi3', 'neox'],
  ['lfm2', 'neox'],
  ['qwen35', 'neox'],
  ['smollm3', 'interleaved'],
  ['granite', 'interleaved'],
]);

type CacheType = 'F64' | 'F16';

/** One sequence with its keys and values; a further sequence is a `fork()`. */
export class ReferenceModel {
  readonly vocabSize: number;
  /** Experts of the pairs of the last tokens, one list for each layer with experts. */
  chosen: Uint32Array[] = [];
  /** Hidden state of the last token after the final norm: [width]. */
  hiddenState = new Float64Array(0);
  readonly #shape: Shape;
  readonly #weights: Weights;
  readonly #cache: CacheType;
  /** Per layer, [cached, kvHeads, headDim]. */
  #keys: Float64Array[];
  #values: Float64Array[];
  readonly #states: KeptState[];
  #position = 0;

  private constructor(shape: Shape, weights: Weights, cache: CacheType) {
    this.#shape = shape;
    this.#weights = weights;
    this.#cache = cache;
    this.#keys = weights.layers.map(() => new Float64Array(0));
    this.#values = weights.layers.map(() => new Float64Array(0));
    this.#states = weights.layers.map(() => ({}));
    this.vocabSize = weights.output.outputs;
  }

  /** @param cache format that keys and values are rounded to; F16 as on the GPU */
  static async load(file: ModelFile, cache: CacheType = 'F64'): Promise<ReferenceModel> {
    const shape = await readShape(file);
    return new ReferenceModel(shape, await readWeights(file, shape), cache);
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
    const { width, eps, activation, embeddingScale, logitScale } = this.#shape;
    const { embedding, layers, outputNorm, output } = this.#weights;
    const rows = tokens.length;
    this.chosen = [];
    let x: Float64Array = embed(tokens, embedding, width).map((value) => value * embeddingScale);
    for (const [index, layer] of layers.entries()) {
      x = this.#attend(index, layer, x, rows);
      const normed = rmsNorm(x, layer.ffnNorm, { rows, cols: width, eps });
      const { feedForward } = layer;
      if ('router' in feedForward) {
        x = this.#added(x, this.#choose(feedForward, normed, rows), layer.postFfnNorm);
        continue;
      }
      const gate = linear(feedForward.gate, normed, rows);
      const gated = gatedActivation(gate, linear(feedForward.up, normed, rows), activation);
      x = this.#added(x, linear(feedForward.down, gated, rows), layer.postFfnNorm);
    }
    this.#position += rows;
    const normed = rmsNorm(x, outputNorm, { rows, cols: width, eps });
    this.hiddenState = normed.slice(-width);
    const logits = linear(output, normed, rows);
    return tokens.map((_, t) =>
      logits.slice(t * this.vocabSize, (t + 1) * this.vocabSize).map((value) => value * logitScale),
    );
  }

  /** The expert outputs of each token. */
  #choose({ router, gate, up, down }: Experts, x: Float64Array, tokens: number): Float64Array {
    const { used, ofAll, activation } = this.#shape.experts;
    const logits = linear(router, x, tokens);
    const { selected: chosen, shares } = route(logits, { tokens, experts: router.outputs, used }, { ofAll });
    this.chosen.push(chosen);
    const product = (one: Linear, input: Float64Array, paired = false) =>
      expertMatmul(input, one.weight, chosen, { ...one, used, paired });
    const ups = product(up, x);
    const gated = product(gate, x).map((value, i) => expertActivation(value, ups[i]!, activation));
    return expertSum(new Float64Array(x.length), product(down, gated, true), shares, used);
  }

  /** The residual stream plus the output of attention or feed-forward. */
  #added(x: Float64Array, result: Float64Array, norm: Values | undefined): Float64Array {
    const { width, eps, residualScale } = this.#shape;
    const rows = x.length / width;
    const given = norm ? rmsNorm(result, norm, { rows, cols: width, eps }) : result;
    return x.map((value, i) => value + given[i]! * residualScale);
  }

  #attend(index: number, layer: Layer, x: Float64Array, rows: number): Float64Array {
    const { width, heads, kvHeads, headDim, eps, attentionScale: scale } = this.#shape;
    const { rope, window } = this.#shape.layer(index);
    const positions = Array.from({ length: rows }, (_, t) => this.#position + t);
    const normed = rmsNorm(x, layer.attnNorm, { rows, cols: width, eps });
    if (layer.state) {
      const mixed = layer.state(normed, rows, this.#states[index]!);
      return this.#added(x, linear(layer.output, mixed, rows), undefined);
    }
    let q: Float64Array = linear(layer.q, normed, rows);
    let k: Float64Array = linear(layer.k, normed, rows);
    if (layer.qNorm) q = rmsNorm(q, layer.qNorm, { rows: rows * heads, cols: headDim, eps });
    if (layer.kNorm) k = rmsNorm(k, layer.kNorm, { rows: rows * kvHeads, cols: headDim, eps });
    if (rope) {
      q = applyRope(q, positions, { heads, headDim }, rope);
      k = applyRope(k, positions, { heads: kvHeads, headDim }, rope);
    }
    const kept = (fresh: Float64Array) => (this.#cache === 'F16' ? fresh.map(roundToF16) : fresh);
    const keys = append(this.#keys[index]!, kept(k));
    const values = append(this.#values[index]!, kept(linear(layer.v, normed, rows)));
    this.#keys[index] = keys;
    this.#values[index] = values;
    const attended = attention(q, positions, keys, values, {
      heads,
      kvHeads,
      headDim,
      scale,
      window,
      ...(layer.sinks ? { sinks: layer.sinks } : {}),
    });
    const { outputGate: gate } = layer;
    const given = gate ? sigmoidGate(attended, linear(gate, normed, rows)) : attended;
    return this.#added(x, linear(layer.output, given, rows), layer.postAttnNorm);
  }
}

/** The logits of every position of a prompt, each [vocab]. */
export async function referenceForward(
  file: ModelFile,
  tokenIds: readonly number[],
): Promise<Float64Array[]> {
  return (await ReferenceModel.load(file)).forward(tokenIds);
}

function linear(layer: Linear, x: Float64Array, tokens: number): Float64Array {
  const { weight, bias, inputs, outputs } = layer;
  return matmul(x, weight, { tokens, inputs, outputs }, { bias });
}

function append(cache: Float64Array, rows: Float64Array): Float64Array {
  const out = new Float64Array(cache.length + rows.length);
  out.set(cache);
  out.set(rows, cache.length);
  return out;
}

async function readShape(file: ModelFile): Promise<Shape> {
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
  if (!['none', 'linear', 'longrope'].includes(String(scaling))) {
    throw new Error(
      `the reference model has no RoPE scaling '${String(scaling)}' (it has none, linear, longrope)`,
    );
  }
  const factors = async (name: string): Promise<Values | undefined> => {
    const info = file.tensors.get(name);
    if (!info) return undefined;
    const columns = info.shape.at(-1)!;
    return dequantizeRows(info.type, await file.readRows(info, 0, 1), { rows: 1, columns });
  };
  const rope: Rope = {
    style,
    theta: number('rope.freq_base', 10000),
    rotaryDim: number('rope.dimension_count', headDim),
    linearFactor: scaling === 'linear' ? number('rope.scaling.factor') : 1,
    // For short texts only: the LongRoPE factors up to the original context.
    freqFactors: (await factors('rope_freqs.weight')) ?? (await factors('rope_factors_short.weight')),
    magnitude: number('rope.scaling.attn_factor', 1),
  };
  const shape: Shape = {
    width,
    heads,
    headDim,
    kvHeads: maxOf(file.metadata.get(`${architecture}.attention.head_count_kv`) ?? heads),
    eps: number('attention.layer_norm_rms_epsilon'),
    activation: 'silu',
    embeddingScale: 1,
    attentionScale: number('attention.scale', headDim ** -0.5),
    residualScale: 1,
    logitScale: 1,
    experts: { used: number('expert_used_count', 0), ofAll: false, activation: 'silu' },
    layer: () => ({ rope, window: number('attention.sliding_window', 0) || Number.POSITIVE_INFINITY }),
  };
  switch (architecture) {
    case 'gemma3': {
      const local: Rope = { style, theta: number('rope.freq_base_swa', 10000), rotaryDim: rope.rotaryDim };
      const every = number('attention.sliding_window_pattern', 6);
      const window = number('attention.sliding_window');
      const layer: Shape['layer'] = (index) =>
        index % every === every - 1 ? { rope, window: Number.POSITIVE_INFINITY } : { rope: local, window };
      return { ...shape, activation: 'gelu_tanh', embeddingScale: Math.sqrt(width), layer };
    }
    case 'gpt-oss': {
      const window = number('attention.sliding_window', 0) || Number.POSITIVE_INFINITY;
      const layer: Shape['layer'] = (index) => ({
        rope,
        window: index % 2 === 0 ? window : Number.POSITIVE_INFINITY,
      });
      return { ...shape, layer, experts: { ...shape.experts, activation: 'swiglu_oai' } };
    }
    case 'qwen3moe': {
      const ofAll = file.metadata.get('qwen3moe.expert_weights_norm') === false;
      const experts = { ...shape.experts, ofAll };
      return { ...shape, layer: () => ({ rope, window: Number.POSITIVE_INFINITY }), experts };
    }
    case 'granite':
      return {
        ...shape,
        embeddingScale: number('embedding_scale', 1),
        residualScale: number('residual_scale', 1),
        logitScale: 1 / number('logit_scale', 1),
      };
    case 'smollm3':
      return {
        ...shape,
        layer: (index) => ({ rope: index % 4 === 3 ? undefined : rope, window: Number.POSITIVE_INFINITY }),
      };
    default:
      return shape;
  }
}

/** A number, or the maximum of a list with one for each layer. */
const maxOf = (value: unknown): number =>
  typeof value === 'object' ? Math.max(...Array.from(value as ArrayLike<unknown>, Number)) : Number(value);

const nothing: Linear = { weight: new Float64Array(0), bias: undefined, inputs: 0, outputs: 0 };

async function readWeights(file: ModelFile, { heads, kvHeads, headDim }: Shape): Promise<Weights> {
  const optional = async (name: string): Promise<Values | undefined> => {
    const info = file.tensors.get(name);
    if (info === undefined) return undefined;
    const columns = info.shape.at(-1)!;
    const rows = info.shape.slice(0, -1).reduce((product, size) => product * size, 1);
    return dequantizeRows(info.type, await file.readRows(info, 0, rows), { rows, columns });
  };
  const required = async (name: string): Promise<Values> => {
    const values = await optional(name);
    if (values === undefined) throw new Error(`${file.name} has no tensor ${name}`);
    return values;
  };
  const matrix = async (name: string): Promise<Linear> => {
    const weight = await required(`${name}.weight`);
    // For experts, the size of one.
    const [outputs, inputs] = file.tensors.get(`${name}.weight`)!.shape.slice(-2);
    return { weight, bias: await optional(`${name}.bias`), inputs: inputs!, outputs: outputs! };
  };
  /** Row ranges of one matrix as separate matrices. */
  const parts = async (name: string, counts: readonly number[]): Promise<Linear[]> => {
    const { weight, bias, inputs } = await matrix(name);
    let row = 0;
    return counts.map((outputs) => {
      const [from, to] = [row, (row += outputs)];
      const own = weight.subarray(from * inputs, to * inputs);
      return { weight: own, bias: bias?.subarray(from, to), inputs, outputs };
    });
  };
  const has = (name: string) => file.tensors.has(`${name}.weight`);
  const layers: Layer[] = [];
  const architecture = String(file.metadata.get('general.architecture'));
  for (let n = 0; n < Number(file.metadata.get(`${architecture}.block_count`)); n++) {
    const number = (key: string) => Number(file.metadata.get(`${architecture}.${key}`));
    const reader = { has: (name: string) => file.tensors.has(name), vector: required, matrix, number };
    const state = await readStateLayer(n, reader);
    const isOne = has(`blk.${n}.attn_qkv`);
    const isGated = architecture === 'qwen35' && !state;
    const [q, k, v] = state
      ? [nothing, nothing, nothing]
      : isOne
        ? await parts(`blk.${n}.attn_qkv`, [heads * headDim, kvHeads * headDim, kvHeads * headDim])
        : [await matrix(`blk.${n}.attn_q`), await matrix(`blk.${n}.attn_k`), await matrix(`blk.${n}.attn_v`)];
    const hidden = Number(file.metadata.get(`${architecture}.feed_forward_length`));
    const isChoice = has(`blk.${n}.ffn_gate_inp`);
    const kind = isChoice ? '_exps' : '';
    const [gate, up] =
      isChoice || has(`blk.${n}.ffn_gate`)
        ? [await matrix(`blk.${n}.ffn_gate${kind}`), await matrix(`blk.${n}.ffn_up${kind}`)]
        : await parts(`blk.${n}.ffn_up`, [hidden, hidden]);
    const dense = { gate: gate!, up: up!, down: await matrix(`blk.${n}.ffn_down${kind}`) };
    const isPostAttn = architecture === 'gpt-oss' || architecture === 'qwen35';
    const half = (first: number) => rowsOfEach(q!, first * headDim, headDim, 2 * headDim);
    const outputs = ['ssm_out', 'shortconv.out_proj', 'attn_output'].map((part) => `blk.${n}.${part}`);
    const postAttnNorm = await optional(`blk.${n}.post_attention_norm.weight`);
    layers.push({
      attnNorm: await required(`blk.${n}.attn_norm.weight`),
      state,
      q: isGated ? half(0) : q!,
      outputGate: isGated ? half(1) : undefined,
      k: k!,
      v: v!,
      output: await matrix(outputs.find(has)!),
      qNorm: await optional(`blk.${n}.attn_q_norm.weight`),
      kNorm: await optional(`blk.${n}.attn_k_norm.weight`),
      postAttnNorm: isPostAttn ? undefined : postAttnNorm,
      postFfnNorm: await optional(`blk.${n}.post_ffw_norm.weight`),
      sinks: await optional(`blk.${n}.attn_sinks.weight`),
      ffnNorm: isPostAttn && postAttnNorm ? postAttnNorm : await required(`blk.${n}.ffn_norm.weight`),
      feedForward: isChoice ? { ...dense, router: await matrix(`blk.${n}.ffn_gate_inp`) } : dense,
    });
  }
  return {
    embedding: await required('token_embd.weight'),
    layers,
    outputNorm: await required(has('output_norm') ? 'output_norm.weight' : 'token_embd_norm.weight'),
    // Tied: the embedding table is the output matrix when the file has none.
    output: await matrix(file.tensors.has('output.weight') ? 'output' : 'token_embd'),
  };
}
