/**
 * Kernels of the lab on the live graph. A target is a node of the graph, or a span of nodes that one kernel can take
 * over; `bindUnits` rewrites the graph's units so that the targets run on the kernels bound to them, and whatever
 * else was in the same unit runs alone.
 */
import { type Contract, contracts } from '../../kernels/contracts.ts';
import type { Grid } from '../../kernels/define.ts';
import type { Activation, BufferName, Graph, GraphNode, MatmulUnit, Unit } from './graph.ts';

/** Values of a contract's dims. */
export type Dims = Record<string, number>;

/** A checked kernel, ready to be compiled. */
export interface LabKernel {
  readonly name: string;
  /** Of its content: equal digests are the same kernel. */
  readonly digest: string;
  readonly contract: Contract;
  /** WGSL. */
  readonly code: string;
  readonly entryPoint: string;
  /** Members that its struct of `params` has, from the first on. */
  readonly params: number;
  /** Values of overrides. */
  readonly constants: Readonly<Record<string, number>>;
  /** Workgroups by the dims of a step. */
  grid(dims: Readonly<Dims>): Grid;
}

/** What a kernel can be bound to. */
export interface Target {
  /** A node's id, or a span's. */
  readonly id: string;
  /** Contract that a kernel must fulfil; its `tokens: one` sibling may be bound too. */
  readonly op: string;
  readonly nodes: readonly GraphNode[];
  readonly isSpan: boolean;
}

export interface Binding {
  readonly target: string;
  readonly kernel: LabKernel;
}

type UnitOf<Op extends Unit['op']> = Extract<Unit, { readonly op: Op }>;

/** Which tensors of the graph a lab kernel's bindings are. */
export type Site =
  | {
      readonly kind: 'product';
      readonly unit: MatmulUnit;
      readonly from: BufferName;
      readonly to: BufferName;
      /** Rows of the unit's stack; all when absent. */
      readonly slice?: Slice;
      /** Weight of the norm before it. */
      readonly gain?: string;
      /** Product of gate and up: with the activation. */
      readonly gated?: Activation;
    }
  | {
      readonly kind: 'norm';
      readonly weight: string;
      readonly from: BufferName;
      readonly to: BufferName;
      readonly sampled: boolean;
    }
  | { readonly kind: 'head_norm'; readonly unit: UnitOf<'head_norm'> }
  | { readonly kind: 'add'; readonly from: BufferName }
  | { readonly kind: 'norm_add'; readonly weight: string }
  | { readonly kind: 'rotation'; readonly unit: UnitOf<'rope_kv_write'> }
  | { readonly kind: 'attention'; readonly unit: UnitOf<'attention'> }
  | { readonly kind: 'activation'; readonly activation: Activation }
  | { readonly kind: 'embed'; readonly weight: string }
  | { readonly kind: 'sample' };

/** Rows of a stack of weights. */
export interface Slice {
  readonly first: number;
  readonly rows: number;
}

export interface LabUnit {
  readonly op: 'lab';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly kernel: LabKernel;
  readonly site: Site;
}

/** Copies the rows whose logits are wanted out of the residual stream. */
export interface GatherUnit {
  readonly op: 'gather';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly to: BufferName;
}

/** What surrounds a draw, where a kernel of the lab draws. */
export interface AroundDrawUnit {
  readonly op: 'sample_adjust' | 'logprobs';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
}

export type PlanUnit = Unit | LabUnit | GatherUnit | AroundDrawUnit;

/** The `tokens: one` contract of the same work, when there is one. */
export const oneTokenSibling = (op: string): string | undefined => {
  const name = op === 'attention' ? 'attention_decode' : op.replace('matmul', 'matvec');
  return name !== op && contracts.has(name) ? name : undefined;
};

/** True when a kernel of this op may be bound to the target. */
export const fits = (op: string, target: Target): boolean =>
  op === target.op || op === oneTokenSibling(target.op);

const opOfNode = (unit: Unit, node: GraphNode): string => (unit.op === 'head_norm' ? 'head_norm' : node.op);

/** A span of whole neighbouring units: where it is, and what its id says of it. */
interface Run {
  readonly first: number;
  readonly count: number;
  readonly target: Target;
}

/** Reads what a norm before the unit before it wrote. */
const readsNormed = (unit: Unit | undefined): boolean =>
  (unit?.op === 'matmul' && unit.from === 'normed') || unit?.op === 'route';

/** Every span, by its place in the units. */
function runsOf(units: readonly Unit[]): Run[] {
  const runs: Run[] = [];
  const add = (first: number, count: number, op: string, id: string) => {
    const nodes = units.slice(first, first + count).flatMap((unit) => unit.nodes);
    runs.push({ first, count, target: { id, op, nodes, isSpan: true } });
  };
  for (const [i, unit] of units.entries()) {
    if (unit.op === 'rope_kv_write' && unit.nodes.length > 1) add(i, 1, 'rope_kv_write', unit.id);
    if (unit.op === 'norm_add') add(i, 1, 'norm_add', unit.id);
    if (unit.op !== 'matmul') continue;
    // `layers.3.ffn.gate_up` with a norm before it is `layers.3.ffn.norm_gate_up`.
    const joinedName = (prefix: string, suffix = '') => unit.id.replace(/[^.]+$/, `${prefix}$&${suffix}`);
    if (unit.add) add(i, 1, 'matmul_add', unit.id);
    else if (unit.nodes.length > 1) add(i, 1, 'matmul', unit.id);
    // A span with the norm leaves no normed rows for others.
    const norm = units[i - 1]?.op === 'rms_norm' && !readsNormed(units[i + 1]);
    const gated = units[i + 1]?.op === 'gated_activation' && unit.biases.length === 0;
    if (norm && !unit.add) add(i - 1, 2, 'norm_matmul', joinedName('norm_'));
    if (gated) add(i, 2, 'gated_matmul', joinedName('', '_act'));
    if (norm && gated) add(i - 1, 3, 'norm_gated_matmul', joinedName('norm_', '_act'));
  }
  return runs;
}

/**
 * Everything of a graph that a kernel can be bound to: nodes in order, then spans. A graph for embeddings has its nodes
 * to look at, and nothing can be bound to them.
 */
export function targetsOf(graph: Graph): Target[] {
  const nodes = graph.units.flatMap((unit) =>
    unit.nodes.map((node) => ({ id: node.id, op: opOfNode(unit, node), nodes: [node], isSpan: false })),
  );
  const runs = graph.shape.embedding ? [] : runsOf(graph.units);
  return [...nodes, ...runs.map(({ target }) => target)];
}

/**
 * The units with every bound target on its kernel. Targets must not overlap.
 * @param unfused kernels for ops that the built-ins only have joined to others: `add`, `rope`, `kv_write`
 */
export function bindUnits(
  graph: Graph,
  bindings: readonly Binding[],
  unfused: ReadonlyMap<string, LabKernel>,
): PlanUnit[] {
  const byTarget = new Map(bindings.map((one) => [one.target, one.kernel]));
  const runs = runsOf(graph.units).filter(({ target }) => byTarget.has(target.id));
  const units: PlanUnit[] = [];
  for (let i = 0; i < graph.units.length; i++) {
    const run = runs.find(({ first }) => first === i);
    if (run) {
      units.push(...runUnits(graph.units.slice(i, i + run.count), run.target, byTarget));
      i += run.count - 1;
      continue;
    }
    const unit = graph.units[i] as Unit;
    units.push(
      ...(unit.nodes.some((node) => byTarget.has(node.id)) ? split(unit, byTarget, unfused) : [unit]),
    );
  }
  return units;
}

type Kernels = ReadonlyMap<string, LabKernel>;

function runUnits(units: readonly Unit[], target: Target, byTarget: Kernels): PlanUnit[] {
  const kernel = byTarget.get(target.id) as LabKernel;
  const lab = (site: Site): LabUnit => ({ op: 'lab', id: target.id, nodes: target.nodes, kernel, site });
  const [only] = units;
  if (only?.op === 'rope_kv_write') return [lab({ kind: 'rotation', unit: only })];
  if (only?.op === 'norm_add') return [lab({ kind: 'norm_add', weight: only.weight })];
  const product = units.find((unit) => unit.op === 'matmul') as MatmulUnit;
  const norm = units.find((unit) => unit.op === 'rms_norm');
  const activation = units.find((unit) => unit.op === 'gated_activation')?.activation;
  const unit = lab({
    kind: 'product',
    unit: product,
    // A norm before sampled rows reads what was gathered to where its result would lie.
    from: norm ? (product.sampled ? 'last' : norm.from) : product.from,
    to: activation ? 'activated' : product.to,
    ...(activation ? { gated: activation } : {}),
    ...(norm ? { gain: norm.weight } : {}),
  });
  return norm && product.sampled ? [gather(target, 'last'), unit] : [unit];
}

const gather = ({ id, nodes }: Pick<Target, 'id' | 'nodes'>, to: BufferName): GatherUnit => ({
  op: 'gather',
  id: `${id}.gather`,
  nodes,
  to,
});

/** A unit of which some nodes are bound, node by node. */
function split(unit: Unit, byTarget: Kernels, unfused: Kernels): PlanUnit[] {
  const lab = (node: GraphNode, kernel: LabKernel, site: Site): LabUnit => ({
    op: 'lab',
    id: node.id,
    nodes: [node],
    kernel,
    site,
  });
  const [node] = unit.nodes as [GraphNode];
  const kernel = byTarget.get(node.id);
  const ownOr = (one: GraphNode): LabKernel => {
    const own = byTarget.get(one.id) ?? unfused.get(one.op);
    if (!own) throw new Error(`${one.id}: no kernel for '${one.op}' alone`);
    return own;
  };
  switch (unit.op) {
    case 'matmul':
      return splitProduct(unit, byTarget, lab, ownOr);
    case 'rope_kv_write': {
      if (unit.cache === undefined) {
        throw new Error('it rotates queries alone, for the keys of another layer: contracts rotate both');
      }
      return unit.nodes.map((one) => lab(one, ownOr(one), { kind: 'rotation', unit }));
    }
    case 'norm_add': {
      // By way of a buffer that is free here: its last reader was the product before.
      const [norm, sum] = unit.nodes as [GraphNode, GraphNode];
      const { weight } = unit;
      const apart = { weight, from: 'projected', to: 'normed', sampled: false } as const;
      const own = byTarget.get(norm.id);
      return [
        own
          ? lab(norm, own, { kind: 'norm', ...apart })
          : { op: 'rms_norm', id: norm.id, nodes: [norm], ...apart },
        lab(sum, ownOr(sum), { kind: 'add', from: 'normed' }),
      ];
    }
    case 'rms_norm': {
      const { weight, sampled } = unit;
      const site = (from: BufferName): Site => ({ kind: 'norm', weight, from, to: unit.to, sampled });
      if (!kernel) return [unit];
      return sampled
        ? [gather({ id: node.id, nodes: [node] }, 'normed'), lab(node, kernel, site('normed'))]
        : [lab(node, kernel, site(unit.from))];
    }
    case 'head_norm':
      return kernel ? [lab(node, kernel, { kind: 'head_norm', unit })] : [unit];
    case 'attention':
      if (unit.sinks !== undefined)
        throw new Error('its heads have sinks, of which the contract knows nothing');
      return kernel ? [lab(node, kernel, { kind: 'attention', unit })] : [unit];
    case 'gated_activation':
      return kernel ? [lab(node, kernel, { kind: 'activation', activation: unit.activation })] : [unit];
    case 'embed':
      return kernel ? [lab(node, kernel, { kind: 'embed', weight: unit.weight })] : [unit];
    case 'sample':
      return kernel
        ? [
            { op: 'sample_adjust', id: node.id, nodes: [node] },
            lab(node, kernel, { kind: 'sample' }),
            { op: 'logprobs', id: node.id, nodes: [node] },
          ]
        : [unit];
    case 'position_embed':
    case 'layer_norm':
    case 'gelu':
    case 'pool':
    case 'short_conv':
    case 'delta_net':
    case 'gated_norm':
    case 'sigmoid_gate':
    case 'route':
    case 'expert_matmul':
    case 'expert_sum':
    case 'per_layer_join':
    case 'per_layer_gate':
    case 'scale':
    case 'softcap':
      throw new Error(`${node.id}: the lab has no op '${node.op}'`);
  }
}

function splitProduct(
  unit: MatmulUnit,
  byTarget: Kernels,
  lab: (node: GraphNode, kernel: LabKernel, site: Site) => LabUnit,
  ownOr: (node: GraphNode) => LabKernel,
): PlanUnit[] {
  const site = { kind: 'product', unit, from: unit.from, to: unit.to } as const;
  if (unit.add) {
    // The sum goes apart, by way of a buffer that is free here: its last reader was the product before.
    const [product, sum] = unit.nodes as [GraphNode, GraphNode];
    const to = 'normed';
    const kernel = byTarget.get(product.id);
    return [
      kernel
        ? lab(product, kernel, { ...site, to })
        : { ...unit, id: product.id, nodes: [product], to, add: false },
      lab(sum, ownOr(sum), { kind: 'add', from: to }),
    ];
  }
  if (unit.nodes.length === 1) {
    const [node] = unit.nodes as [GraphNode];
    return [lab(node, ownOr(node), site)];
  }
  let first = 0;
  return unit.nodes.map((node): PlanUnit => {
    const slice = { first, rows: node.width };
    first += node.width;
    const kernel = byTarget.get(node.id);
    return kernel ? lab(node, kernel, { ...site, slice }) : { ...unit, id: node.id, nodes: [node], slice };
  });
}

/** Those of `present` that share a node with one of `added`. */
export function overlapping(graph: Graph, present: readonly Binding[], added: readonly Binding[]): Binding[] {
  const nodesOf = new Map(targetsOf(graph).map((one) => [one.id, one.nodes.map(({ id }) => id)]));
  const taken = new Set(added.flatMap(({ target }) => nodesOf.get(target) ?? []));
  return present.filter(({ target }) => (nodesOf.get(target) ?? []).some((id) => taken.has(id)));
}

/** Bindings of steps of one token, and of all others: kernels for one token go first where they can run. */
export function bindingsByStep(
  graph: Graph,
  bindings: readonly Binding[],
): { one: readonly Binding[]; many: readonly Binding[] } {
  const many = bindings.filter(({ kernel }) => kernel.contract.tokens === 'any');
  const single = bindings.filter(({ kernel }) => kernel.contract.tokens === 'one');
  const hidden = new Set(overlapping(graph, many, single));
  return { one: [...many.filter((one) => !hidden.has(one)), ...single], many };
}
