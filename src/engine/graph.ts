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

/** Writes a forward pass down as verbs; an architecture file reads like the model's own description. */
export class GraphBuilder {
  readonly #shape: Shape;
  readonly #units: Unit[] = [];
  #layer: number | undefined;

  constructor(shape: Shape) {
    this.#shape = shape;
  }

  layer(index: number | undefined): void {
    this.#layer = index;
  }

  embed(weight: string): void {
    const node = this.#node('embed', 'embed', ['tokens'], this.#shape.width, [weight]);
    this.#units.push({ op: 'embed', id: node.id, nodes: [node], weight });
  }

  norm(slot: string, weight: string, from: BufferName = 'hidden', to: BufferName = 'normed'): void {
    const node = this.#node('rms_norm', slot, [from], this.#shape.width, [weight]);
    this.#units.push({
      op: 'rms_norm',
      id: node.id,
      nodes: [node],
      weight,
      from,
      to,
      sampled: to === 'last',
    });
  }

  /**
   * q, k and v in one product when their types allow it.
   * @param weights of each, or one matrix of them all; biases likewise, or none
   */
  qkv(weights: readonly string[], biases: readonly string[] = [], from: BufferName = 'normed'): void {
    const { heads, kvHeads, headDim } = layerShape(this.#shape, this.#layer);
    const nodes = (['q', 'k', 'v'] as const).map((part, index) =>
      this.#node('matmul', `attn.${part}`, [from], (part === 'q' ? heads : kvHeads) * headDim, [
        ...partOf(weights, index),
        ...partOf(biases, index),
      ]),
    );
    this.#matmul('attn.qkv', nodes, { weights, biases, from, to: 'qkv' });
  }

  headNorm(part: 'q' | 'k' | 'v', weight: string): void {
    const { heads, kvHeads, headDim } = layerShape(this.#shape, this.#layer);
    const count = part === 'q' ? heads : kvHeads;
    const node = this.#node('rms_norm', `attn.${part}_norm`, [this.#id(`attn.${part}`)], count * headDim, [
      weight,
    ]);
    const firstHead = { q: 0, k: heads, v: heads + kvHeads }[part];
    const layer = this.#layer ?? 0;
    const own = { part, weight, firstHead, heads: count, layer };
    this.#units.push({ op: 'head_norm', id: node.id, nodes: [node], ...own });
  }

  /**
   * Rotary positions, the write to the cache, and attention over it.
   * @param cache index into the shape's caches, when it is not the layer's number
   */
  attend({ rope, window, scale, sinks }: AttentionTraits, cache = this.#layer ?? 0): void {
    const { heads, kvHeads, headDim } = layerShape(this.#shape, this.#layer);
    const layer = this.#layer ?? 0;
    const [q, k, v] = ['attn.q', 'attn.k', 'attn.v'].map((slot) => this.#id(slot)) as [
      string,
      string,
      string,
    ];
    const turn =
      rope === undefined ? [] : [this.#node('rope', 'attn.rope', [q, k], (heads + kvHeads) * headDim, [])];
    const [turned = { q, k }] = turn.map(({ id }) => ({ q: id, k: id }));
    const write = this.#node('kv_write', 'attn.kv_write', [turned.k, v], 2 * kvHeads * headDim, []);
    const id = this.#id('attn.rope_kv');
    this.#units.push({ op: 'rope_kv_write', id, nodes: [...turn, write], layer, rope, cache });
    const weights = sinks === undefined ? [] : [sinks];
    const attend = this.#node('attention', 'attn.attend', [turned.q, write.id], heads * headDim, weights);
    const traits = { rope, window, scale, ...(sinks === undefined ? {} : { sinks }) };
    this.#units.push({ op: 'attention', id: attend.id, nodes: [attend], layer, cache, ...traits });
  }

  /**
   * Attention of queries alone over the keys and values of an earlier layer.
   * @param source that layer, and the index of its cache among the shape's
   */
  attendTo(
    source: { layer: number; cache: number },
    { rope, window, scale }: Omit<AttentionTraits, 'sinks'>,
  ): void {
    const { heads, headDim } = layerShape(this.#shape, this.#layer);
    const layer = this.#layer ?? 0;
    let q = this.#id('attn.q');
    if (rope !== undefined) {
      const turn = this.#node('rope', 'attn.rope', [q], heads * headDim, []);
      const id = this.#id('attn.rope_q');
      this.#units.push({ op: 'rope_kv_write', id, nodes: [turn], layer, rope, cache: undefined });
      q = turn.id;
    }
    const kept = `layers.${source.layer}.attn.kv_write`;
    const attend = this.#node('attention', 'attn.attend', [q, kept], heads * headDim, []);
    const traits = { layer, cache: source.cache, rope, window, scale };
    this.#units.push({ op: 'attention', id: attend.id, nodes: [attend], ...traits });
  }

  /** A product that is added to the residual stream. */
  projectAdd(
    slot: string,
    weight: string,
    from: BufferName,
    { biases = [], scale = 1 }: { biases?: readonly string[]; scale?: number } = {},
  ): void {
    const product = this.#node('matmul', slot, [from], this.#shape.width, [weight, ...biases]);
    const sum = this.#node('add', `${slot}_residual`, [product.id, 'hidden'], this.#shape.width, []);
    const weights = [weight];
    this.#matmul(`${slot}_add`, [product, sum], { weights, biases, from, to: 'hidden', add: true, scale });
  }

  /** A product whose norm is added to the residual stream. */
  projectNormAdd(
    slot: string,
    weight: string,
    from: BufferName,
    norm: { slot: string; weight: string; biases?: readonly string[] },
  ): void {
    const { width } = this.#shape;
    const { biases = [] } = norm;
    const product = this.#node('matmul', slot, [from], width, [weight, ...biases]);
    this.#matmul(slot, [product], { weights: [weight], biases, from, to: 'projected' });
    const normed = this.#node('rms_norm', norm.slot, [product.id], width, [norm.weight]);
    const sum = this.#node('add', `${norm.slot}_residual`, [normed.id, 'hidden'], width, []);
    const id = this.#id(`${norm.slot}_add`);
    this.#units.push({ op: 'norm_add', id, nodes: [normed, sum], weight: norm.weight });
  }

  /**
   * activation(gate) * up.
   * @param weights of gate and of up, or one matrix of both; biases likewise, or none
   */
  gateUp(
    weights: readonly string[],
    activation: Activation,
    biases: readonly string[] = [],
    from: BufferName = 'normed',
  ): void {
    const { feedForward } = layerShape(this.#shape, this.#layer);
    const nodes = ['ffn.gate', 'ffn.up'].map((slot, index) =>
      this.#node('matmul', slot, [from], feedForward, [...partOf(weights, index), ...partOf(biases, index)]),
    );
    this.#matmul('ffn.gate_up', nodes, { weights, biases, from, to: 'gate_up' });
    const inputs = nodes.map((node) => node.id);
    const act = this.#node('gated_activation', 'ffn.act', inputs, feedForward, []);
    this.#units.push({ op: 'gated_activation', id: act.id, nodes: [act], activation });
  }

  /** @param cap bounds the logits softly */
  logits(weight: string, scale = 1, cap?: number): void {
    const { vocabulary } = this.#shape;
    const node = this.#node('matmul', 'logits', ['last'], vocabulary, [weight]);
    const to = { from: 'last', to: 'logits', sampled: true, scale } as const;
    this.#matmul('logits', [node], { weights: [weight], ...to });
    if (cap !== undefined) {
      this.unit('logits.softcap', { op: 'softcap', cap }, { inputs: ['logits'], width: vocabulary });
    }
    const sample = this.#node('sample', 'sample', [cap === undefined ? 'logits' : 'logits.softcap'], 1, []);
    this.#units.push({ op: 'sample', id: sample.id, nodes: [sample] });
  }

  /** Learned positions and the first token type: what a model has of the two. */
  positions(tables: { positions?: string; tokenType?: string }): void {
    const node = this.#node(
      'position_embed',
      'positions',
      ['embed'],
      this.#shape.width,
      Object.values(tables),
    );
    this.#units.push({ op: 'position_embed', id: node.id, nodes: [node], ...tables });
  }

  layerNorm(slot: string, weight: string, bias: string): void {
    const node = this.#node('layer_norm', slot, ['hidden'], this.#shape.width, [weight, bias]);
    this.#units.push({ op: 'layer_norm', id: node.id, nodes: [node], weight, bias });
  }

  /** gelu(up), without a gate. `gelu` is the exact one. */
  up(weight: string, biases: readonly string[], from: BufferName): void {
    const { feedForward } = this.#shape;
    const node = this.#node('matmul', 'ffn.up', [from], feedForward, [weight, ...biases]);
    this.#matmul('ffn.up', [node], { weights: [weight], biases, from, to: 'activated' });
    const act = this.#node('gelu', 'ffn.act', [node.id], feedForward, []);
    this.#units.push({ op: 'gelu', id: act.id, nodes: [act] });
  }

  pool(from: BufferName): void {
    const node = this.#node('pool', 'pool', [from], this.#shape.width, []);
    this.#units.push({ op: 'pool', id: node.id, nodes: [node], from });
  }

  /** A product of the pooled rows. */
  dense(slot: string, weight: string, from: BufferName, to: BufferName, width: number): void {
    const node = this.#node('matmul', slot, [from], width, [weight]);
    this.#matmul(slot, [node], { weights: [weight], from, to, sampled: true });
  }

  /**
   * A product to a buffer, for layers that put their parts together by themselves.
   * @param parts of the product: what each is called, its weight and its rows
   */
  product(
    slot: string,
    parts: readonly { slot: string; weight: string; rows: number; bias?: string }[],
    { from, to, scale = 1 }: { from: BufferName; to: BufferName; scale?: number },
  ): void {
    const nodes = parts.map((part) =>
      this.#node('matmul', part.slot, [from], part.rows, [part.weight, part.bias ?? []].flat()),
    );
    const weights = parts.map(({ weight }) => weight);
    const biases = parts.flatMap(({ bias }) => bias ?? []);
    this.#matmul(slot, nodes, { weights, biases, from, to, scale });
  }

  /**
   * A unit that is one node: for the ops of layers that keep a state, of experts, and of inputs by layer.
   * @param width elements a token of what it gives
   */
  unit(
    slot: string,
    unit: OneNode<StateUnit | ExpertUnit | PerLayerUnit>,
    node: { inputs: string[]; width: number; weights?: readonly string[] },
  ): void {
    const own = this.#node(unit.op, slot, node.inputs, node.width, [...(node.weights ?? [])]);
    this.#units.push({ ...unit, id: own.id, nodes: [own] });
  }

  build(views?: ReadonlyMap<string, TensorView>): Graph {
    return { shape: this.#shape, units: this.#units, ...(views ? { views } : {}) };
  }

  #matmul(
    slot: string,
    nodes: readonly GraphNode[],
    unit: Pick<MatmulUnit, 'weights' | 'from' | 'to'> & Partial<MatmulUnit>,
  ): void {
    const usual = { biases: [], scale: 1, add: false, sampled: false };
    this.#units.push({ ...usual, ...unit, op: 'matmul', id: this.#id(slot), nodes });
  }

  #id(slot: string): string {
    return this.#layer === undefined ? slot : `layers.${this.#layer}.${slot}`;
  }

  #node(op: string, slot: string, inputs: string[], width: number, weights: string[]): GraphNode {
    const layer = this.#layer === undefined ? {} : { layer: this.#layer };
    return { id: this.#id(slot), op, slot, ...layer, inputs, width, weights };
  }
}

/** What a unit is besides its id and nodes. */
type OneNode<U extends Unit> = U extends Unit ? Omit<U, 'id' | 'nodes'> : never;

/** The name at an index of a list, or the one name that stands for all. */
const partOf = (names: readonly string[], index: number): readonly string[] =>
  names.length > 1 ? names.slice(index, index + 1) : names;
