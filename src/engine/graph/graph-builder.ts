import type { AttentionTraits } from '../ops/attention.ts';
import type { Activation } from '../ops/gated-activation.ts';
import type { Unit } from '../ops/index.ts';
import type { MatmulUnit } from '../ops/matmul.ts';
import {
  type BufferName,
  type Graph,
  type GraphNode,
  layerShape,
  type RankHead,
  type Shape,
  type TensorView,
} from './graph.ts';

/**
 * Builds the graph of a forward pass. Each method adds one operation, so an architecture file reads like the model's
 * description.
 */
export class GraphBuilder {
  readonly #shape: Shape;
  readonly #units: Unit[] = [];
  /** Ids of the head norms, by the id of the node that they normalize in place. */
  readonly #headNorms = new Map<string, string>();
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
   * q, k and v as one product when their types allow it.
   * @param weights a weight for each, or one matrix of all; biases likewise, or none
   */
  qkv(weights: readonly string[], biases: readonly string[] = [], from: BufferName = 'normed'): void {
    const { heads, kvHeads, headDim } = layerShape(this.#shape, this.#layer);
    const nodes = (['q', 'k', 'v'] as const).map((part, index) =>
      this.#node('matmul', `attn.${part}`, [from], (part === 'q' ? heads : kvHeads) * headDim, [
        ...nameAt(weights, index),
        ...nameAt(biases, index),
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
    this.#headNorms.set(this.#id(`attn.${part}`), node.id);
    this.#units.push({ op: 'head_norm', id: node.id, nodes: [node], ...own });
  }

  /**
   * Rotary position embedding, the cache write, and attention over the cache.
   * @param cache index into the shape's caches, when it differs from the layer number
   */
  attend({ rope, window, scale, sinks }: AttentionTraits, cache = this.#layer ?? 0): void {
    const { heads, kvHeads, headDim } = layerShape(this.#shape, this.#layer);
    const layer = this.#layer ?? 0;
    const [q, k, v] = [this.#headsSource('q'), this.#headsSource('k'), this.#headsSource('v')];
    const rotation =
      rope === undefined ? [] : [this.#node('rope', 'attn.rope', [q, k], (heads + kvHeads) * headDim, [])];
    const [rotated = { q, k }] = rotation.map(({ id }) => ({ q: id, k: id }));
    const write = this.#node('kv_write', 'attn.kv_write', [rotated.k, v], 2 * kvHeads * headDim, []);
    const id = this.#id('attn.rope_kv');
    this.#units.push({ op: 'rope_kv_write', id, nodes: [...rotation, write], layer, rope, cache });
    const weights = sinks === undefined ? [] : [sinks];
    const attention = this.#node('attention', 'attn.attend', [rotated.q, write.id], heads * headDim, weights);
    const traits = { rope, window, scale, ...(sinks === undefined ? {} : { sinks }) };
    this.#units.push({ op: 'attention', id: attention.id, nodes: [attention], layer, cache, ...traits });
  }

  /**
   * Attention of queries over the keys and values of an earlier layer.
   * @param source that layer, and the index of its cache in the shape
   */
  attendShared(
    source: { layer: number; cache: number },
    { rope, window, scale }: Omit<AttentionTraits, 'sinks'>,
  ): void {
    const { heads, headDim } = layerShape(this.#shape, this.#layer);
    const layer = this.#layer ?? 0;
    let q = this.#headsSource('q');
    if (rope !== undefined) {
      const rotation = this.#node('rope', 'attn.rope', [q], heads * headDim, []);
      const id = this.#id('attn.rope_q');
      this.#units.push({ op: 'rope_kv_write', id, nodes: [rotation], layer, rope, cache: undefined });
      q = rotation.id;
    }
    const sourceId = `layers.${source.layer}.attn.kv_write`;
    const attention = this.#node('attention', 'attn.attend', [q, sourceId], heads * headDim, []);
    const traits = { layer, cache: source.cache, rope, window, scale };
    this.#units.push({ op: 'attention', id: attention.id, nodes: [attention], ...traits });
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
   * @param weights gate and up, or one matrix of both; biases likewise, or none
   */
  gateUp(
    weights: readonly string[],
    activation: Activation,
    biases: readonly string[] = [],
    from: BufferName = 'normed',
  ): void {
    const { feedForward } = layerShape(this.#shape, this.#layer);
    const nodes = ['ffn.gate', 'ffn.up'].map((slot, index) =>
      this.#node('matmul', slot, [from], feedForward, [...nameAt(weights, index), ...nameAt(biases, index)]),
    );
    this.#matmul('ffn.gate_up', nodes, { weights, biases, from, to: 'gate_up' });
    const inputs = nodes.map((node) => node.id);
    const act = this.#node('gated_activation', 'ffn.act', inputs, feedForward, []);
    this.#units.push({ op: 'gated_activation', id: act.id, nodes: [act], activation });
  }

  /** @param cap soft limit of the logits' magnitude */
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

  /** Learned position embeddings and the embeddings of token types, as far as the model has them. */
  positions({
    positions,
    tokenTypes,
  }: {
    positions?: string;
    tokenTypes?: { weight: string; rows: number };
  }): void {
    const node = this.#node(
      'position_embed',
      'positions',
      ['embed'],
      this.#shape.width,
      [positions ?? [], tokenTypes?.weight ?? []].flat(),
    );
    this.#units.push({
      op: 'position_embed',
      id: node.id,
      nodes: [node],
      ...(positions === undefined ? {} : { positions }),
      ...(tokenTypes ? { tokenTypes } : {}),
    });
  }

  layerNorm(slot: string, weight: string, bias: string): void {
    const node = this.#node('layer_norm', slot, ['hidden'], this.#shape.width, [weight, bias]);
    this.#units.push({ op: 'layer_norm', id: node.id, nodes: [node], weight, bias });
  }

  /** gelu(up) without a gate, with the exact (erf) GELU. */
  geluUp(weight: string, biases: readonly string[], from: BufferName): void {
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
  dense(
    slot: string,
    { weight, biases = [] }: { weight: string; biases?: readonly string[] },
    from: BufferName,
    to: BufferName,
    width: number,
  ): void {
    const node = this.#node('matmul', slot, [from], width, [weight, ...biases]);
    this.#matmul(slot, [node], { weights: [weight], biases, from, to, sampled: true });
  }

  /**
   * A product written to a buffer, for layers that combine their parts themselves.
   * @param parts slot, weight and rows of each part of the product
   */
  product(
    slot: string,
    parts: readonly { slot: string; weight: string; rows: number; bias?: string }[],
    unit: Pick<MatmulUnit, 'from' | 'to'> & Partial<Pick<MatmulUnit, 'scale' | 'unbounded'>>,
  ): void {
    const nodes = parts.map((part) =>
      this.#node('matmul', part.slot, [unit.from], part.rows, [part.weight, part.bias ?? []].flat()),
    );
    const weights = parts.map(({ weight }) => weight);
    const biases = parts.flatMap(({ bias }) => bias ?? []);
    this.#matmul(slot, nodes, { weights, biases, ...unit });
  }

  /**
   * A unit of one node, of any op.
   * @param width output elements for each token
   */
  unit(
    slot: string,
    unit: SingleNodeUnit<Unit>,
    node: { inputs: string[]; width: number; weights?: readonly string[] },
  ): void {
    const own = this.#node(unit.op, slot, node.inputs, node.width, [...(node.weights ?? [])]);
    this.#units.push({ ...unit, id: own.id, nodes: [own] });
  }

  build(views?: ReadonlyMap<string, TensorView>, rankHead?: RankHead): Graph {
    const optional = { ...(views ? { views } : {}), ...(rankHead ? { rankHead } : {}) };
    return { shape: this.#shape, units: this.#units, ...optional };
  }

  #matmul(
    slot: string,
    nodes: readonly GraphNode[],
    unit: Pick<MatmulUnit, 'weights' | 'from' | 'to'> & Partial<MatmulUnit>,
  ): void {
    const defaults = { biases: [], scale: 1, add: false, sampled: false };
    this.#units.push({ ...defaults, ...unit, op: 'matmul', id: this.#id(slot), nodes });
  }

  /** Id of the node that provides the layer's q, k or v for attention. */
  #headsSource(part: 'q' | 'k' | 'v'): string {
    const id = this.#id(`attn.${part}`);
    return this.#headNorms.get(id) ?? id;
  }

  #id(slot: string): string {
    return this.#layer === undefined ? slot : `layers.${this.#layer}.${slot}`;
  }

  #node(op: string, slot: string, inputs: string[], width: number, weights: string[]): GraphNode {
    const layer = this.#layer === undefined ? {} : { layer: this.#layer };
    return { id: this.#id(slot), op, slot, ...layer, inputs, width, weights };
  }
}

/** A unit without its id and nodes. */
type SingleNodeUnit<U extends Unit> = U extends Unit ? Omit<U, 'id' | 'nodes'> : never;

/** The name at an index of a list, or the only name, which covers all parts. */
const nameAt = (names: readonly string[], index: number): readonly string[] =>
  names.length > 1 ? names.slice(index, index + 1) : names;
