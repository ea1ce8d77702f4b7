/**
 * A forward pass as data. Nodes are the ops as the model's definition names them (the lab shows and rebinds
 * them); a unit is the smallest thing the plan runs at once: a node, or a span of nodes one kernel takes over.
 */

/** Where a node's values lie. All are f32, row-major, a row a token (or a sampled token). */
export type BufferName =
  | 'hidden' // the residual stream
  | 'normed'
  | 'qkv'
  | 'context' // attention's output
  | 'gate_up'
  | 'activated'
  | 'projected' // a projection that is normalised before it is added
  | 'last' // normed rows of the sampled tokens, or a pooled row a sequence
  | 'logits'
  | 'expanded' // between the two dense layers behind a pooling
  | 'embedding' // after them
  | 'mixed' // what a layer with a state is fed, or the gate of a gated attention
  | 'router' // a logit an expert
  | 'expert_gate' // of each expert that a token has, one after the other: also in the next two
  | 'expert_activated'
  | 'expert_out'
  | 'per_layer' // inputs of all layers, by layer
  | 'layer_input'; // that of one layer, gated

/** How a sequence's rows become one. */
export type PoolMode = 'mean' | 'cls' | 'last';

export interface GraphNode {
  /** Stable: `layers.3.attn.q`. */
  readonly id: string;
  readonly op: string;
  /** The role without the layer: `attn.q`. */
  readonly slot: string;
  readonly layer?: number;
  readonly inputs: readonly string[];
  /** Elements a token of the output. */
  readonly width: number;
  readonly weights: readonly string[];
}

interface UnitBase {
  readonly id: string;
  readonly nodes: readonly GraphNode[];
}

/** One matrix of weights, or several of the same width laid one below the other. */
export interface MatmulUnit extends UnitBase {
  readonly op: 'matmul';
  readonly weights: readonly string[];
  /** One a weight, or none. */
  readonly biases: readonly string[];
  readonly from: BufferName;
  /** Rows of `from` are the residual stream as it is, which f16 may not hold. */
  readonly unbounded?: boolean;
  readonly to: BufferName;
  /** The product, with its bias, is multiplied by it. */
  readonly scale: number;
  /** Add to what `to` holds: the residual. */
  readonly add: boolean;
  readonly sampled: boolean;
  /** Only these rows of the stack: the others run on kernels of the lab. */
  readonly slice?: { readonly first: number; readonly rows: number };
}

/** What is done to the gate. */
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
  /** Without `rope` positions do not turn anything: k and v go to the cache as they are. */
  | (UnitBase & {
      readonly op: 'rope_kv_write';
      readonly layer: number;
      readonly rope: number | undefined;
      /** Index into the shape's caches; without one only q is turned, and nothing is written. */
      readonly cache: number | undefined;
    })
  | (UnitBase &
      AttentionTraits & {
        readonly op: 'attention';
        readonly layer: number;
        /** Index into the shape's caches: the layer's own, or that of an earlier layer. */
        readonly cache: number;
      })
  | (UnitBase & { readonly op: 'gated_activation'; readonly activation: Activation })
  | (UnitBase & { readonly op: 'sample' })
  /** Adds rows of a table by position, and that of the first token type, to `hidden`. */
  | (UnitBase & { readonly op: 'position_embed'; readonly positions?: string; readonly tokenType?: string })
  /** Of `hidden`, in place. */
  | (UnitBase & { readonly op: 'layer_norm'; readonly weight: string; readonly bias: string })
  /** Of `activated`, in place. */
  | (UnitBase & { readonly op: 'gelu' })
  /** A sequence's rows of `from` to one row of `last`. */
  | (UnitBase & { readonly op: 'pool'; readonly from: BufferName })
  | StateUnit
  | ExpertUnit
  | PerLayerUnit;

/** Layers that keep a state in place of keys and values. */
export type StateUnit =
  /**
   * A causal convolution of each channel with its last `kernel` inputs, those before the step from the state
   * [(kernel - 1) rows, channels]. `gated`: `mixed` holds B, C and x of `channels` each, and context = C * conv(B * x).
   * `silu`: the first `channels` of `mixed` become silu(conv(mixed)), in place.
   */
  | (UnitBase & {
      readonly op: 'short_conv';
      readonly layer: number;
      /** [channels, kernel], the last column of the newest input. */
      readonly weight: string;
      readonly bias?: string;
      readonly mode: 'gated' | 'silu';
      readonly channels: number;
      readonly kernel: number;
      readonly cache: number;
    })
  /**
   * The gated delta rule over `mixed`, which holds q and k [keyHeads, keyDim] each, v [valueHeads, valueDim], the output
   * gate z [valueHeads, valueDim], and beta and alpha of each value head, in this order; the result is in `context`
   * [valueHeads, valueDim]. State: [valueHeads, valueDim, keyDim].
   */
  | (UnitBase & {
      readonly op: 'delta_net';
      readonly layer: number;
      /** [valueHeads] each: what is added to alpha, and the negative rate it is multiplied by. */
      readonly dt: string;
      readonly a: string;
      readonly keyHeads: number;
      readonly valueHeads: number;
      readonly keyDim: number;
      readonly valueDim: number;
      readonly cache: number;
    })
  /** context = RMS norm of each of its heads, times silu of the same place of `mixed` from `gateOffset` on. */
  | (UnitBase & {
      readonly op: 'gated_norm';
      readonly layer: number;
      readonly weight: string;
      readonly heads: number;
      readonly headDim: number;
      readonly gateOffset: number;
    })
  /** context *= sigmoid(mixed), of all heads of an attention. */
  | (UnitBase & { readonly op: 'sigmoid_gate'; readonly layer: number });

/** Feed-forwards of which a token has a few out of many. */
export type ExpertUnit =
  /** The experts of each token and their shares, by the logits in `router`; who has which token, for the products. */
  | (UnitBase & {
      readonly op: 'route';
      /** Shares by softmax over all experts, made to sum to 1 or not, or by softmax over the chosen ones. */
      readonly shares: 'of_all' | 'of_all_normalised' | 'of_chosen';
      /** Shares are multiplied by it. */
      readonly scale: number;
    })
  /**
   * A product with the chosen experts alone. `gate`: of `normed` to `expert_gate`. `up`: of `normed`; then activation of
   * `expert_gate` times that goes to `expert_activated`. `down`: of `expert_activated` to `expert_out`.
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
  /** hidden += what the experts of a token give, each times its share. */
  | (UnitBase & { readonly op: 'expert_sum' });

/** `swiglu_oai`: gate clamped from above by 7, up on both sides; gate * sigmoid(1.702 gate) * (up + 1). */
export type ExpertActivation = 'silu' | 'swiglu_oai';

/** Inputs of their own for every layer, and what else Gemma 3n and 4 have. */
export type PerLayerUnit =
  /**
   * `per_layer` holds a projection of the embedding, [layers, elements of a layer's input]. Each layer's part is normalised;
   * the token's row of `rows` times `rowScale` is added, which streams in from the file, and the sum multiplied by `scale`.
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
  /** logits = cap * tanh(logits / cap), of sampled rows. */
  | (UnitBase & { readonly op: 'softcap'; readonly cap: number });

/** What differs between the attentions of a model's layers. */
export interface AttentionTraits {
  /** Index into the shape's `ropes`; positions turn nothing when there is none. */
  readonly rope: number | undefined;
  /**
   * A query sees so many positions, its own the last of them; where it sees both ways, so many in each direction, its own
   * among them; 0: all.
   */
  readonly window: number;
  /** Scores are multiplied by it. */
  readonly scale: number;
  /** A vector of a number a head that stands among the scores, and takes its share of the softmax with it. */
  readonly sinks?: string;
}

export interface Rope {
  readonly theta: number;
  /** Rotated elements of a head. */
  readonly rotary: number;
  /** Pairs (2i, 2i+1), or (i, i + rotary/2). */
  readonly style: 'interleaved' | 'neox';
  /** Positions are divided by it (linear scaling). */
  readonly scale: number;
  /** rotary/2 divisors of the inverse frequencies (Llama 3, YaRN, LongRoPE), when the model has them. */
  readonly factors?: Factors;
  /** Divisors in their place where the context that is served is longer than `beyond` (LongRoPE). */
  readonly long?: { readonly beyond: number; readonly factors: Factors };
  /** Cosine and sine are multiplied by it; 1 but for YaRN and LongRoPE. */
  readonly magnitude: number;
}

type Factors = Float32Array | Float64Array;

/** What a graph for embeddings ends in. */
export interface Embedding {
  readonly pooling: PoolMode;
  /** Elements. */
  readonly dimensions: number;
  /** Holds a row a sequence of the step, not yet of unit length. */
  readonly from: 'last' | 'embedding';
  /** A step holds whole sequences: tokens see what follows them, or the pooling reads them all. */
  readonly whole: boolean;
  /** Tokens see what follows them. */
  readonly bidirectional: boolean;
  /** Elements between two dense layers. */
  readonly expanded?: number;
}

/** Sizes that may differ from layer to layer. */
export interface LayerShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly feedForward: number;
  /** Elements a token of `context`: what attention gives, or what stands in its place. */
  readonly context: number;
  /** Elements a token of `mixed`. */
  readonly mixed: number;
}

/** What a layer keeps of a text. */
export type CacheShape =
  /** Keys and values of every token, in pages that texts with the same beginning share. */
  | { readonly kind: 'pages'; readonly kvHeads: number; readonly headDim: number }
  /** f32 numbers of a text, however long it is; zero before its first token. */
  | { readonly kind: 'state'; readonly floats: number };

export interface ExpertShape {
  readonly count: number;
  /** Of a token. */
  readonly used: number;
  /** Rows of gate and of up. */
  readonly feedForward: number;
}

/** A tensor that the file does not hold as such. */
export type TensorView =
  /** Of a matrix, of each `every` rows `rows` from `first` on. */
  | {
      readonly kind: 'rows';
      readonly tensor: string;
      readonly first: number;
      readonly rows: number;
      readonly every: number;
    }
  /** A vector of these numbers. */
  | { readonly kind: 'values'; readonly values: Float32Array<ArrayBuffer> };

/** The numbers of a model that kernels and caches need. */
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
  /** Every different rotation; layers name theirs by its index. */
  readonly ropes: readonly Rope[];
  /** Projections are normalised before they are added to the residual stream. */
  readonly sandwich: boolean;
  readonly trainedContext: number;
  /** Absent in a model that generates. */
  readonly embedding?: Embedding;
  /** Of every layer, where they are not all alike; `heads` to `feedForward` are then those of the largest. */
  readonly perLayer?: readonly LayerShape[];
  /** Everything that layers keep; without it each layer has pages of its own. */
  readonly caches?: readonly CacheShape[];
  readonly experts?: ExpertShape;
  /** Elements of the input that each layer has of its own. */
  readonly layerInput?: number;
  /** Bytes a token, on the GPU, of rows that stream in from the file. */
  readonly streamedBytes?: number;
}

export interface Graph {
  readonly shape: Shape;
  readonly units: readonly Unit[];
  /** By the names that units have for them. */
  readonly views?: ReadonlyMap<string, TensorView>;
}

/** Sizes of a layer; without one, the largest there are. */
export function layerShape(shape: Omit<Shape, 'ropes'>, layer: number | undefined): LayerShape {
  const { heads, kvHeads, headDim, feedForward, perLayer } = shape;
  const usual = { heads, kvHeads, headDim, feedForward, context: heads * headDim, mixed: 0 };
  return (layer === undefined ? undefined : perLayer?.[layer]) ?? usual;
}

export function cacheShapes({ caches, layers, kvHeads, headDim }: Shape): readonly CacheShape[] {
  return caches ?? Array.from({ length: layers }, () => ({ kind: 'pages', kvHeads, headDim }));
}
