import { streamedRowBytes } from '../execution/streamed-rows.ts';
import { type ModelFile, ModelFileError } from '../formats/model-file.ts';
import type { CacheShape, Graph, LayerShape, Shape } from '../graph/graph.ts';
import { GraphBuilder } from '../graph/graph-builder.ts';
import { elementsOf, readVector } from '../loading/weights.ts';
import {
  checkShape,
  readLayerCount,
  readNumber,
  readOptionalNumber,
  readLayerPattern,
  readWholeByLayer,
  readWhole,
  readWindow,
} from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';
import { Tensors } from './tensors.ts';

/** The table of per-layer inputs, which stays in the file. */
const layerInputTable = 'per_layer_token_embd.weight';

/**
 * Gemma 4, text only. Norms before and after attention and feed-forward, head norms (that of v without weights),
 * unscaled attention scores. Layers with a sliding window have smaller heads than those without. The last layers
 * share keys and values of earlier ones and have a wider feed-forward. Small models have an additional input for
 * every layer, looked up by token.
 */
export const gemma4: Architecture = {
  async build(file) {
    const shape = await readGemma4Shape(file);
    const layers = layersOf(file, shape);
    const tensors = new Tensors(file);
    const g = new GraphBuilder(shape);
    const { width, vocabulary, layerInput } = shape;
    g.embed(tensors.matrix('token_embd.weight', vocabulary, width));
    if (layerInput !== undefined) addLayerInputs(g, tensors, shape, layerInput);
    for (const layer of layers) {
      const name = (part: string) => `blk.${layer.index}.${part}`;
      g.layer(layer.index);
      g.norm('attn.norm', tensors.vector(name('attn_norm.weight'), width));
      addAttention(g, tensors, shape, layer);
      projectNormAdd(g, tensors, layer, width, attentionProjection);

      g.norm('ffn.norm', tensors.vector(name('ffn_norm.weight'), width));
      const { feedForward } = layer.sizes;
      const gateUp = ['ffn_gate', 'ffn_up'].map((part) =>
        tensors.matrix(name(`${part}.weight`), feedForward, width),
      );
      g.gateUp(gateUp, 'gelu_tanh');
      projectNormAdd(g, tensors, layer, width, feedForwardProjection);

      if (layerInput !== undefined) addLayerInput(g, tensors, layer, { width, layerInput });
      const scale = await readLayerScale(file, name('layer_output_scale.weight'));
      if (scale !== 1) g.unit('scale', { op: 'scale', scale }, { inputs: ['hidden'], width });
    }
    g.layer(undefined);
    g.norm('output.norm', tensors.vector('output_norm.weight', width), 'hidden', 'last');
    const table = tensors.output(vocabulary, width);
    g.logits(table, 1, readSoftcap(file));
    tensors.requireAll();
    const ones = [...new Set(layers.map(({ sizes }) => sizes.headDim))].map(
      (length) => [onesName(length), { kind: 'values', values: new Float32Array(length).fill(1) }] as const,
    );
    return g.build(new Map(ones));
  },
};

/** One layer of the model. */
interface Layer {
  readonly index: number;
  readonly sizes: LayerShape;
  /** Number of positions that a token attends to; 0 for all. */
  readonly window: number;
  /** Index into the shape's ropes. */
  readonly rope: number;
  /** The layer whose keys and values it reads: itself, or the last layer of the same kind that has its own. */
  readonly source: number;
}

/** Name of the weights of a norm without weights: a vector of ones. */
const onesName = (length: number): string => `ones.${length}`;

const slidingPattern = (file: ModelFile) => readLayerPattern(file, 'attention.sliding_window_pattern', 6);

async function readGemma4Shape(file: ModelFile): Promise<Shape> {
  const embedding = file.tensors.get('token_embd.weight');
  if (!embedding) {
    throw new ModelFileError('missing_tensor', `${file.name}: tensor 'token_embd.weight' is missing`);
  }
  const width = readNumber(file, 'embedding_length');
  const perLayer = sizesOf(file);
  const maxOf = (one: keyof LayerShape) => Math.max(0, ...perLayer.map((layer) => layer[one]));
  const globalRope = await readRope(file, 'neox');
  const localTheta = readNumber(file, 'rope.freq_base_swa', 10000);
  const localHeadDim = readNumber(file, 'attention.key_length_swa');
  const localRotary = readNumber(file, 'rope.dimension_count_swa', localHeadDim);
  const localRope = {
    theta: localTheta,
    rotary: localRotary,
    style: globalRope.style,
    scale: 1,
    magnitude: 1,
  };
  const layerInput = readOptionalNumber(file, 'embedding_length_per_layer_input');
  const table = file.tensors.get(layerInputTable);
  const shape: Shape = {
    layers: readNumber(file, 'block_count'),
    width,
    heads: maxOf('heads'),
    kvHeads: maxOf('kvHeads'),
    headDim: maxOf('headDim'),
    feedForward: maxOf('feedForward'),
    vocabulary: embedding.shape[0] ?? 0,
    eps: readNumber(file, 'attention.layer_norm_rms_epsilon'),
    embeddingScale: Math.sqrt(width),
    ropes: [globalRope, localRope],
    hasSandwichNorms: true,
    trainedContext: readNumber(file, 'context_length'),
    perLayer,
    caches: perLayer
      .slice(0, firstSharedLayer(file))
      .map(({ kvHeads, headDim }): CacheShape => ({ kind: 'pages', kvHeads, headDim })),
    ...(layerInput === undefined ? {} : { layerInput }),
    ...(layerInput !== undefined && table ? { streamedBytes: streamedRowBytes(table) } : {}),
  };
  checkShape(file, shape);
  const isSliding = slidingPattern(file);
  for (const [n, layer] of perLayer.entries()) {
    checkShape(file, { ...shape, ...layer, ropes: [isSliding(n) ? localRope : globalRope] });
  }
  if (layerInput !== undefined && !(Number.isInteger(layerInput) && layerInput % 32 === 0)) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: embedding_length_per_layer_input must be a multiple of 32, got ${layerInput}`,
    );
  }
  return shape;
}

/** Soft limit of the logits; undefined when there is none. */
function readSoftcap(file: ModelFile): number | undefined {
  const cap = readOptionalNumber(file, 'final_logit_softcapping');
  if (cap === undefined || (cap > 0 && Number.isFinite(Math.fround(cap)))) return cap;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata 'gemma4.final_logit_softcapping' must be greater than 0 and fit a 32-bit float, got ${cap}`,
  );
}

/** Index of the first layer that shares keys and values of an earlier one. */
function firstSharedLayer(file: ModelFile): number {
  const layers = readNumber(file, 'block_count');
  return layers - readWhole(file, 'attention.shared_kv_layers', [0, layers - 1], { fallback: 0 });
}

function sizesOf(file: ModelFile): LayerShape[] {
  const isSliding = slidingPattern(file);
  const heads = readWholeByLayer(file, 'attention.head_count');
  const kvHeads = readWholeByLayer(file, 'attention.head_count_kv');
  const feedForward = readWholeByLayer(file, 'feed_forward_length');
  const globalHeadDim = readNumber(file, 'attention.key_length');
  const localHeadDim = readNumber(file, 'attention.key_length_swa');
  return Array.from({ length: readLayerCount(file) }, (_, n): LayerShape => {
    const headDim = isSliding(n) ? localHeadDim : globalHeadDim;
    return {
      heads: heads(n),
      kvHeads: kvHeads(n),
      headDim,
      feedForward: feedForward(n),
      context: heads(n) * headDim,
      mixed: 0,
    };
  });
}

function layersOf(file: ModelFile, { perLayer = [] }: Shape): Layer[] {
  const isSliding = slidingPattern(file);
  const width = readWindow(file);
  const first = firstSharedLayer(file);
  const slidingByLayer = perLayer.map((_, n) => isSliding(n));
  return perLayer.map((sizes, index): Layer => {
    const isLocal = isSliding(index);
    const source = index < first ? index : slidingByLayer.slice(0, first).lastIndexOf(isLocal);
    const own = perLayer[source];
    if (!own || own.kvHeads !== sizes.kvHeads || own.headDim !== sizes.headDim) {
      throw new ModelFileError(
        'bad_metadata',
        `${file.name}: layer ${index} shares keys and values (attention.shared_kv_layers), but no layer before ${first} has the same kind and size`,
      );
    }
    return { index, sizes, window: isLocal ? width : 0, rope: isLocal ? 1 : 0, source };
  });
}

/** Computes `per_layer`: the inputs of all layers, from the token's embedding and its row in the table. */
function addLayerInputs(g: GraphBuilder, tensors: Tensors, shape: Shape, layerInput: number): void {
  const { layers, width, vocabulary } = shape;
  const elements = layers * layerInput;
  const weight = tensors.matrix('per_layer_model_proj.weight', elements, width);
  const scale = width ** -0.5;
  const slot = 'layer_inputs.proj';
  g.product(slot, [{ slot, weight, rows: elements }], {
    from: 'hidden',
    unbounded: true,
    to: 'per_layer',
    scale,
  });
  const rows = tensors.matrix(layerInputTable, vocabulary, elements);
  const norm = tensors.vector('per_layer_proj_norm.weight', layerInput);
  const traits = { weight: norm, rows, rowScale: Math.sqrt(layerInput), scale: Math.SQRT1_2 };
  const node = { inputs: [slot, 'tokens'], width: elements, weights: [norm, rows] };
  g.unit('layer_inputs.join', { op: 'per_layer_join', ...traits }, node);
}

function addAttention(g: GraphBuilder, tensors: Tensors, shape: Shape, layer: Layer): void {
  const { index, window, rope, source } = layer;
  const { heads, kvHeads, headDim } = layer.sizes;
  const name = (part: string) => `blk.${index}.attn_${part}.weight`;
  const q = tensors.matrix(name('q'), heads * headDim, shape.width);
  const qNorm = tensors.vector(name('q_norm'), headDim);
  if (source !== index) {
    g.product('attn.q', [{ slot: 'attn.q', weight: q, rows: heads * headDim }], {
      from: 'normed',
      to: 'qkv',
    });
    g.headNorm('q', qNorm);
    g.attendShared({ layer: source, cache: source }, { rope, window, scale: 1 });
    return;
  }
  const k = tensors.matrix(name('k'), kvHeads * headDim, shape.width);
  // Without a matrix for v, values are the keys before their norm.
  const v = tensors.has(name('v')) ? tensors.matrix(name('v'), kvHeads * headDim, shape.width) : k;
  g.qkv([q, k, v]);
  g.headNorm('q', qNorm);
  g.headNorm('k', tensors.vector(name('k_norm'), headDim));
  g.headNorm('v', onesName(headDim));
  g.attend({ rope, window, scale: 1 });
}

interface Projection {
  readonly slot: string;
  readonly part: string;
  readonly from: 'context' | 'activated';
  readonly norm: string;
}

const attentionProjection: Projection = {
  slot: 'attn.o',
  part: 'attn_output',
  from: 'context',
  norm: 'post_attention_norm',
};
const feedForwardProjection: Projection = {
  slot: 'ffn.down',
  part: 'ffn_down',
  from: 'activated',
  norm: 'post_ffw_norm',
};

function projectNormAdd(
  g: GraphBuilder,
  tensors: Tensors,
  { index, sizes }: Layer,
  width: number,
  { slot, part, from, norm }: Projection,
): void {
  const columns = from === 'context' ? sizes.context : sizes.feedForward;
  const weight = tensors.matrix(`blk.${index}.${part}.weight`, width, columns);
  g.projectNormAdd(slot, weight, from, {
    slot: slot.replace(/\.\w+$/, '.post_norm'),
    weight: tensors.vector(`blk.${index}.${norm}.weight`, width),
  });
}

/** Adds: hidden += the layer's own input, gated by hidden and projected. */
function addLayerInput(
  g: GraphBuilder,
  tensors: Tensors,
  { index }: Layer,
  { width, layerInput }: { width: number; layerInput: number },
): void {
  const name = (part: string) => `blk.${index}.${part}.weight`;
  const slot = 'input.gate';
  const weight = tensors.matrix(name('inp_gate'), layerInput, width);
  g.product(slot, [{ slot, weight, rows: layerInput }], {
    from: 'hidden',
    unbounded: true,
    to: 'layer_input',
  });
  const inputs = [`layers.${index}.${slot}`, 'layer_inputs.join'];
  g.unit('input.act', { op: 'per_layer_gate', layer: index }, { inputs, width: layerInput });
  g.projectNormAdd('input.proj', tensors.matrix(name('proj'), width, layerInput), 'layer_input', {
    slot: 'input.post_norm',
    weight: tensors.vector(name('post_norm'), width),
  });
}

/** Factor of the residual stream after a layer; 1 when the file has none. */
async function readLayerScale(file: ModelFile, name: string): Promise<number> {
  if (!file.tensors.has(name)) return 1;
  const length = elementsOf(file, name);
  const [scale] = length === 1 ? await readVector(file, name) : [];
  if (scale !== undefined && Number.isFinite(scale)) return scale;
  throw new ModelFileError(
    'bad_tensors',
    `${file.name}: tensor '${name}' must hold one finite number, got ${scale ?? length}`,
  );
}
