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
  | 'last' // normed rows of the sampled tokens
  | 'logits';

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
  /** Add to what `to` holds: the residual. */
  readonly add: boolean;
  readonly sampled: boolean;
  /** Only these rows of the stack: the others run on kernels of the lab. */
  readonly slice?: { readonly first: number; readonly rows: number };
}

export type Unit =
  | (UnitBase & { readonly op: 'embed'; readonly weight: string })
  | (UnitBase & {
      readonly op: 'rms_norm';
      readonly weight: string;
      readonly from: BufferName;
      readonly to: BufferName;
      readonly sampled: boolean;
    })
  /** RMS norm of each head of q or k inside `qkv`. */
  | (UnitBase & {
      readonly op: 'head_norm';
      readonly weight: string;
      readonly firstHead: number;
      readonly heads: number;
    })
  | MatmulUnit
  | (UnitBase & { readonly op: 'rope_kv_write'; readonly layer: number })
  | (UnitBase & { readonly op: 'attention'; readonly layer: number })
  | (UnitBase & { readonly op: 'gated_activation' })
  | (UnitBase & { readonly op: 'sample' });

export interface Rope {
  readonly theta: number;
  /** Rotated elements of a head. */
  readonly rotary: number;
  /** Pairs (2i, 2i+1), or (i, i + rotary/2). */
  readonly style: 'interleaved' | 'neox';
  /** Positions are divided by it (linear scaling). */
  readonly scale: number;
  /** rotary/2 divisors of the inverse frequencies (Llama 3 scaling), when the model has them. */
  readonly factors?: Float32Array;
}

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
  readonly rope: Rope;
  readonly trainedContext: number;
}

export interface Graph {
  readonly shape: Shape;
  readonly units: readonly Unit[];
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

  /** q, k and v in one product when their types allow it. */
  qkv(weights: Record<'q' | 'k' | 'v', string>, biases?: Record<'q' | 'k' | 'v', string>): void {
    const { heads, kvHeads, headDim } = this.#shape;
    const nodes = (['q', 'k', 'v'] as const).map((part) =>
      this.#node('matmul', `attn.${part}`, ['normed'], (part === 'q' ? heads : kvHeads) * headDim, [
        weights[part],
        ...(biases ? [biases[part]] : []),
      ]),
    );
    this.#units.push({
      op: 'matmul',
      id: this.#id('attn.qkv'),
      nodes,
      weights: [weights.q, weights.k, weights.v],
      biases: biases ? [biases.q, biases.k, biases.v] : [],
      from: 'normed',
      to: 'qkv',
      add: false,
      sampled: false,
    });
  }

  headNorm(part: 'q' | 'k', weight: string): void {
    const { heads, kvHeads, headDim } = this.#shape;
    const count = part === 'q' ? heads : kvHeads;
    const node = this.#node('rms_norm', `attn.${part}_norm`, [this.#id(`attn.${part}`)], count * headDim, [
      weight,
    ]);
    const firstHead = part === 'q' ? 0 : heads;
    this.#units.push({ op: 'head_norm', id: node.id, nodes: [node], weight, firstHead, heads: count });
  }

  /** Rotary positions, the write to the cache, and attention over it. */
  attend(): void {
    const { heads, kvHeads, headDim } = this.#shape;
    const layer = this.#layer ?? 0;
    const [q, k, v] = ['attn.q', 'attn.k', 'attn.v'].map((slot) => this.#id(slot)) as [
      string,
      string,
      string,
    ];
    const rope = this.#node('rope', 'attn.rope', [q, k], (heads + kvHeads) * headDim, []);
    const write = this.#node('kv_write', 'attn.kv_write', [rope.id, v], 2 * kvHeads * headDim, []);
    this.#units.push({ op: 'rope_kv_write', id: this.#id('attn.rope_kv'), nodes: [rope, write], layer });
    const attend = this.#node('attention', 'attn.attend', [rope.id, write.id], heads * headDim, []);
    this.#units.push({ op: 'attention', id: attend.id, nodes: [attend], layer });
  }

  /** A product that is added to the residual stream. */
  projectAdd(slot: string, weight: string, from: BufferName, bias?: string): void {
    const product = this.#node('matmul', slot, [from], this.#shape.width, bias ? [weight, bias] : [weight]);
    const sum = this.#node('add', `${slot}_residual`, [product.id, 'hidden'], this.#shape.width, []);
    this.#units.push({
      op: 'matmul',
      id: this.#id(`${slot}_add`),
      nodes: [product, sum],
      weights: [weight],
      biases: bias ? [bias] : [],
      from,
      to: 'hidden',
      add: true,
      sampled: false,
    });
  }

  /** silu(gate) * up. */
  gateUp(gate: string, up: string): void {
    const { feedForward } = this.#shape;
    const nodes = [
      this.#node('matmul', 'ffn.gate', ['normed'], feedForward, [gate]),
      this.#node('matmul', 'ffn.up', ['normed'], feedForward, [up]),
    ];
    this.#units.push({
      op: 'matmul',
      id: this.#id('ffn.gate_up'),
      nodes,
      weights: [gate, up],
      biases: [],
      from: 'normed',
      to: 'gate_up',
      add: false,
      sampled: false,
    });
    const inputs = nodes.map((node) => node.id);
    const act = this.#node('gated_activation', 'ffn.act', inputs, feedForward, []);
    this.#units.push({ op: 'gated_activation', id: act.id, nodes: [act] });
  }

  logits(weight: string): void {
    const node = this.#node('matmul', 'logits', ['last'], this.#shape.vocabulary, [weight]);
    this.#units.push({
      op: 'matmul',
      id: node.id,
      nodes: [node],
      weights: [weight],
      biases: [],
      from: 'last',
      to: 'logits',
      add: false,
      sampled: true,
    });
    const sample = this.#node('sample', 'sample', ['logits'], 1, []);
    this.#units.push({ op: 'sample', id: sample.id, nodes: [sample] });
  }

  build(): Graph {
    return { shape: this.#shape, units: this.#units };
  }

  #id(slot: string): string {
    return this.#layer === undefined ? slot : `layers.${this.#layer}.${slot}`;
  }

  #node(op: string, slot: string, inputs: string[], width: number, weights: string[]): GraphNode {
    const layer = this.#layer === undefined ? {} : { layer: this.#layer };
    return { id: this.#id(slot), op, slot, ...layer, inputs, width, weights };
  }
}
