/**
 * A forward pass as data. Nodes are the operations of the model's definition, which the lab shows and rebinds. A unit
 * is the smallest thing that a plan runs at once: a node, or a span of nodes that one kernel computes.
 */

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

interface UnitBase {
  readonly id: string;
  readonly nodes: readonly GraphNode[];
}

/** A product with one weight matrix, or with several of the same width stacked by rows. */
export interface MatmulUnit extends UnitBase {
  readonly op: 'matmul';
  readonly weights: readonly string[];
  /** One for each weight, or none. */
  readonly biases: readonly string[];
  readonly from: BufferName;
  /** Rows of `from` are the raw residual stream, whose values may exceed f16. */
  readonly unbounded?: boolean;
  readonly to: BufferName;
  /** Factor for the product including its bias. */
  readonly scale: number;
  /** Add the result to `to` (residual connection) instead of overwriting it. */
  readonly add: boolean;
  readonly sampled: boolean;
  /** Only these rows of the stack; lab kernels compute the others. */
  readonly slice?: { readonly first: number; readonly rows: number };
}

/** Activation function of the gate. */
export type Activation = 'silu' | 'gelu_tanh';

export type Unit =
  | (UnitBase & { readonly op: 'embed'; readonly weight: string })
  | (UnitBase & {
      readonly op: 'rms_norm';
      readonly weight: string;
      readonly from: BufferName;
      readonly to: BufferName;
      readonly sampled: boolean;
    })
  /** RMS norm of each head of q, k or v inside `qkv`. */
  | (UnitBase & {
      readonly op: 'head_norm';
      readonly part: 'q' | 'k' | 'v';
      readonly weight: string;
      readonly firstHead: number;
      readonly heads: number;
      readonly layer: number;
    })
  | MatmulUnit
  /** hidden += the norm of `projected`. */
  | (UnitBase & { readonly op: 'norm_add'; readonly weight: string })
  /** Without `rope`, k and v are written to the cache without rotation. */
  | (UnitBase & {
      readonly op: 'rope_kv_write';
      readonly layer: number;
      readonly rope: number | undefined;
      /** Index into the shape's caches; when undefined, only q is rotated and nothing is written. */
      readonly cache: number | undefined;
    })
  | (UnitBase &
      AttentionTraits & {
        readonly op: 'attention';
        readonly layer: number;
        /** Index into the shape's caches: the layer's own cache, or that of an earlier layer. */
        readonly cache: number;
      })
  | (UnitBase & { readonly op: 'gated_activation'; readonly activation: Activation })
  | (UnitBase & { readonly op: 'sample' })
  /** Adds a row of the position table, and that of the first token type, to `hidden`. */
  | (UnitBase & { readonly op: 'position_embed'; readonly positions?: string; readonly tokenType?: string })
  /** Layer norm of `hidden`, in place. */
  | (UnitBase & { readonly op: 'layer_norm'; readonly weight: string; readonly bias: string })
  /** Exact GELU of `activated`, in place. */
  | (UnitBase & { readonly op: 'gelu' })
  /** Pools the rows of a sequence in `from` into one row of `last`. */
  | (UnitBase & { readonly op: 'pool'; readonly from: BufferName })
  | StateUnit
  | ExpertUnit
  | PerLayerUnit;

/** Layers that keep a recurrent state instead of keys and values. */
export type StateUnit =
  /**
   * A causal convolution of each channel with its last `kernel` inputs; inputs before the step come from the state
   * [(kernel - 1) rows, channels]. `gated`: `mixed` holds B, C and x of `channels` each, and context = C * conv(B *
   * x). `silu`: the first `channels` of `mixed` become silu(conv(mixed)), in place.
   */
  | (UnitBase & {
      readonly op: 'short_conv';
      readonly layer: number;
      /** [channels, kernel]; the last column belongs to the newest input. */
      readonly weight: string;
      readonly bias?: string;
      readonly mode: 'gated' | 'silu';
      readonly channels: number;
      readonly kernel: number;
      readonly cache: number;
    })
  /**
   * The gated delta rule over `mixed`, which holds in this order: q and k [keyHeads, keyDim] each, v [valueHeads,
   * valueDim], the output gate z [valueHeads, valueDim], and beta and alpha of each value head. The result goes to
   * `context` [valueHeads, valueDim]. State: [valueHeads, valueDim, keyDim].
   */
  | (UnitBase & {
      readonly op: 'delta_net';
      readonly layer: number;
      /** [valueHeads] each: the bias added to alpha, and the negative decay rate it is multiplied by. */
      readonly dt: string;
      readonly a: string;
      readonly keyHeads: number;
      readonly valueHeads: number;
      readonly keyDim: number;
      readonly valueDim: number;
      readonly cache: number;
    })
  /**
   * context = RMS norm of each head of `context`, times silu of the same position of `mixed` from `gateOffset` on.
   */
  | (UnitBase & {
      readonly op: 'gated_norm';
      readonly layer: number;
      readonly weight: string;
      readonly heads: number;
      readonly headDim: number;
      readonly gateOffset: number;
    })
  /** context *= sigmoid(mixed), for all heads of an attention layer. */
  | (UnitBase & { readonly op: 'sigmoid_gate'; readonly layer: number });

/** Mixture-of-experts feed-forward: each token uses a few of many experts. */
export type ExpertUnit =
  /**
   * Selects the experts of each token and their shares from the logits in `router`, and groups tokens by expert for
   * the products.
   */
  | (UnitBase & {
      readonly op: 'route';
      /**
       * How shares are computed: softmax over all experts, normalized to sum to 1 or not, or softmax over the
       * selected experts.
       */
      readonly shares: 'of_all' | 'of_all_normalised' | 'of_chosen';
      /** Factor for all shares. */
      readonly scale: number;
    })
  /**
   * A product with the selected experts only. `gate`: from `normed` to `expert_gate`. `up`: from `normed`, multiplied
   * by the activation of `expert_gate`, to `expert_activated`. `down`: from `expert_activated` to `expert_out`.
   */
  | (UnitBase & {
      readonly op: 'expert_matmul';
      readonly role: 'gate' | 'up' | 'down';
      /** [experts, rows, columns] */
      readonly weight: string;
      /** [experts, rows] */
      readonly bias?: string;
      readonly activation: ExpertActivation;
    })
  /** hidden += the sum of a token's expert outputs, each times its share. */
  | (UnitBase & { readonly op: 'expert_sum' });

/** `swiglu_oai`: gate clamped to at most 7, up to [-7, 7]; gate * sigmoid(1.702 gate) * (up + 1). */
export type ExpertActivation = 'silu' | 'swiglu_oai';

/** Per-layer inputs, and other operations of Gemma 3n and 4. */
export type PerLayerUnit =
  /**
   * `per_layer` holds a projection of the embedding, [layers, elements of a layer's input]. Each layer's part is
   * normalized; the token's row of `rows`, streamed from the file, times `rowScale` is added; the sum is multiplied
   * by `scale`.
   */
  | (UnitBase & {
      readonly op: 'per_layer_join';
      readonly weight: string;
      readonly rows: string;
      readonly rowScale: number;
      readonly scale: number;
    })
  /** layer_input = gelu_tanh(layer_input) * the layer's part of `per_layer`. */
  | (UnitBase & { readonly op: 'per_layer_gate'; readonly layer: number })
  /** hidden *= scale. */
  | (UnitBase & { readonly op: 'scale'; readonly scale: number })
  /** logits = cap * tanh(logits / cap), for sampled rows. */
  | (UnitBase & { readonly op: 'softcap'; readonly cap: number });

/** Attention parameters that differ between the layers of a model. */
export interface AttentionTraits {
  /** Index into the shape's `ropes`; undefined for no rotation. */
  readonly rope: number | undefined;
  /**
   * Number of positions that a query attends to, including its own; in bidirectional attention, the number in each
   * direction, including its own; 0 for all.
   */
  readonly window: number;
  /** Factor for attention scores. */
  readonly scale: number;
  /** Name of a vector with one attention sink logit for each head, which takes part in the softmax. */
  readonly sinks?: string;
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
