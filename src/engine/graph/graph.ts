/**
 * A forward pass as data. Nodes are the operations of the model's definition, which the lab shows and rebinds. A unit
 * is the smallest thing that a plan runs at once: a node, or a span of nodes that one kernel computes.
 */

import type { Unit } from '../ops/index.ts';

/**
 * Buffer that a node writes to. All buffers are f32, row-major, with one row for each token or each sampled token.
 */
export type BufferName =
  | 'hidden' // the residual stream
  | 'normed'
  | 'qkv'
  | 'context' // attention's output
  | 'gate_up'
  | 'activated'
  | 'projected' // a projection that is normalized before it is added
  | 'last' // normed rows of the sampled tokens, or one pooled row for each sequence
  | 'logits'
  | 'expanded' // between the two dense layers after pooling
  | 'embedding' // after the dense layers
  | 'mixed' // input of a layer with a state, or the gate of gated attention
  | 'router' // one logit for each expert
  | 'expert_gate' // for each expert of a token, consecutively; the next two have the same layout
  | 'expert_activated'
  | 'expert_out'
  | 'per_layer' // per-layer inputs of all layers, in layer order
  | 'layer_input'; // the per-layer input of one layer, gated

/** How the rows of a sequence are pooled into one row. */
export type PoolMode = 'mean' | 'cls' | 'last';

export interface GraphNode {
  /** Stable id: `layers.3.attn.q`. */
  readonly id: string;
  readonly op: string;
  /** Role without the layer: `attn.q`. */
  readonly slot: string;
  readonly layer?: number;
  readonly inputs: readonly string[];
  /** Output elements for each token. */
  readonly width: number;
  readonly weights: readonly string[];
}

/** Members of every unit. */
export interface UnitBase {
  readonly id: string;
  readonly nodes: readonly GraphNode[];
}

export interface Rope {
  readonly theta: number;
  /** Number of rotated elements of a head. */
  readonly rotary: number;
  /** Pairs (2i, 2i+1), or (i, i + rotary/2). */
  readonly style: 'interleaved' | 'neox';
  /** Divisor of positions (linear scaling). */
  readonly scale: number;
  /** rotary/2 divisors of the inverse frequencies (Llama 3, YaRN, LongRoPE), if the model has them. */
  readonly factors?: Factors;
  /** LongRoPE: divisors that replace `factors` when the served context is longer than `beyond`. */
  readonly long?: { readonly beyond: number; readonly factors: Factors };
  /** Factor for cosine and sine; 1 except for YaRN and LongRoPE. */
  readonly magnitude: number;
}

type Factors = Float32Array | Float64Array;

/** The output of a graph for embeddings. */
export interface Embedding {
  readonly pooling: PoolMode;
  /** Elements of an embedding. */
  readonly dimensions: number;
  /** Buffer with one row for each sequence of the step, not normalized yet. */
  readonly from: 'last' | 'embedding';
  /** A step must hold whole sequences, because attention is bidirectional or pooling reads all tokens. */
  readonly requiresWholeSequence: boolean;
  /** Tokens also attend to later tokens. */
  readonly bidirectional: boolean;
  /** Elements between the two dense layers. */
  readonly expanded?: number;
}

/** Computes the score of a pair of query and document from its row of the graph: a sum over the row's elements, and a bias. */
export interface RankHead {
  /** Applied to the row first: `tanh` where the row is the output of a dense layer. */
  readonly activation: 'tanh' | 'none';
  /** [width] */
  readonly weights: Float64Array;
  readonly bias: number;
  /** How query and document become the text of a pair. */
  readonly pairs: PairFormat;
}

/**
 * `bert`: `[CLS] query [SEP] document [SEP]`, the document as a second segment. `xlm-roberta`: `<s> query </s></s>
 * document </s>`. `qwen3-reranker`: a chat that asks whether the document answers the query.
 */
export type PairFormat = 'bert' | 'xlm-roberta' | 'qwen3-reranker';

/** Sizes that may differ between layers. */
export interface LayerShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly feedForward: number;
  /** Elements of `context` for each token: the output of attention, or of what replaces it. */
  readonly context: number;
  /** Elements of `mixed` for each token. */
  readonly mixed: number;
}

/** What a layer stores for a sequence. */
export type CacheShape =
  /** Keys and values of every token, in pages that sequences with the same prefix share. */
  | { readonly kind: 'pages'; readonly kvHeads: number; readonly headDim: number }
  /** A fixed number of f32 values for each sequence, zero before its first token. */
  | { readonly kind: 'state'; readonly floats: number };

export interface ExpertShape {
  readonly count: number;
  /** Experts selected for each token. */
  readonly used: number;
  /** Rows of gate and of up. */
  readonly feedForward: number;
}

/** A tensor that is derived from tensors of the file. */
export type TensorView =
  /** From each group of `every` rows of a matrix: `rows` rows from `first` on. */
  | {
      readonly kind: 'rows';
      readonly tensor: string;
      readonly first: number;
      readonly rows: number;
      readonly every: number;
    }
  /** A vector of these values. */
  | { readonly kind: 'values'; readonly values: Float32Array<ArrayBuffer> };

/** Model dimensions and constants that kernels and caches need. */
export interface Shape {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly feedForward: number;
  readonly vocabulary: number;
  readonly eps: number;
  readonly embeddingScale: number;
  /** Every distinct rotary embedding; layers refer to theirs by index. */
  readonly ropes: readonly Rope[];
  /** Projections are normalized before they are added to the residual stream (sandwich norm). */
  readonly hasSandwichNorms: boolean;
  readonly trainedContext: number;
  /** Absent in a generative model. */
  readonly embedding?: Embedding;
  /** Sizes of every layer, when they differ; `heads` to `feedForward` are then the maxima. */
  readonly perLayer?: readonly LayerShape[];
  /** Caches of all layers; when absent, each layer has its own keys and values. */
  readonly caches?: readonly CacheShape[];
  readonly experts?: ExpertShape;
  /** Elements of each layer's own input. */
  readonly layerInput?: number;
  /** GPU bytes for each token of rows that are streamed from the file. */
  readonly streamedBytes?: number;
}

export interface Graph {
  readonly shape: Shape;
  readonly units: readonly Unit[];
  /** The model ranks documents: its rows become scores. */
  readonly rankHead?: RankHead;
  /** Derived tensors, by the names that units use. */
  readonly views?: ReadonlyMap<string, TensorView>;
}

/** Sizes of a layer; the largest ones when `layer` is undefined. */
export function layerShape(shape: Omit<Shape, 'ropes'>, layer: number | undefined): LayerShape {
  const { heads, kvHeads, headDim, feedForward, perLayer } = shape;
  const defaults = { heads, kvHeads, headDim, feedForward, context: heads * headDim, mixed: 0 };
  return (layer === undefined ? undefined : perLayer?.[layer]) ?? defaults;
}

export function cacheShapes({ caches, layers, kvHeads, headDim }: Shape): readonly CacheShape[] {
  return caches ?? Array.from({ length: layers }, () => ({ kind: 'pages', kvHeads, headDim }));
}
