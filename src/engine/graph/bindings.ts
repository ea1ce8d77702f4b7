/**
 * Binds lab kernels to the live graph. A target is a node of the graph, or a span of nodes that one kernel can
 * replace. `bindUnits` rewrites the graph's units so that each target runs on the kernel bound to it; the other nodes
 * of the same unit run separately.
 */
import { type Contract, contracts } from '../../../kernels/contracts.ts';
import type { Grid } from '../../../kernels/define.ts';
import { gatherFor } from '../ops/gather.ts';
import { bindUnitNodes, contractOfUnit, type Unit } from '../ops/index.ts';
import { productSite } from '../ops/matmul.ts';
import type { BindingSite } from '../ops/op.ts';
import type { BufferName, Graph, GraphNode } from './graph.ts';

/** Dimension values of a contract, by name. */
export type Dims = Record<string, number>;

/** A validated lab kernel, ready to compile. */
export interface LabKernel {
  readonly name: string;
  /** Digest of the kernel's content; equal digests mean equal kernels. */
  readonly digest: string;
  readonly contract: Contract;
  /** WGSL. */
  readonly code: string;
  readonly entryPoint: string;
  /** Number of leading members of the contract's params struct that the kernel declares. */
  readonly params: number;
  /** Pipeline override constants. */
  readonly constants: Readonly<Record<string, number>>;
  /** Workgroup counts for the dimensions of a step. */
  grid(dims: Readonly<Dims>): Grid;
}

/** A node or span that a lab kernel can be bound to. */
export interface Target {
  /** Id of the node or span. */
  readonly id: string;
  /** Contract that the kernel must implement; a kernel of its `tokens: one` sibling may be bound too. */
  readonly op: string;
  readonly nodes: readonly GraphNode[];
  readonly isSpan: boolean;
}

export interface Binding {
  readonly target: string;
  readonly kernel: LabKernel;
}

export interface LabUnit {
  readonly op: 'lab';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly kernel: LabKernel;
  readonly site: BindingSite;
}

/** Copies the rows of the residual stream whose logits are needed. */
export interface GatherUnit {
  readonly op: 'gather';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly to: BufferName;
}

/** A built-in sampling stage that runs before or after a lab kernel that samples. */
export interface SamplingStageUnit {
  readonly op: 'sample_adjust' | 'logprobs';
  readonly id: string;
  readonly nodes: readonly GraphNode[];
}

export type PlanUnit = Unit | LabUnit | GatherUnit | SamplingStageUnit;

/** The `tokens: one` contract of the same operation, if there is one. */
export const oneTokenSibling = (op: string): string | undefined => {
  const name = op === 'attention' ? 'attention_decode' : op.replace('matmul', 'matvec');
  return name !== op && contracts.has(name) ? name : undefined;
};

/** True when a kernel of this op can be bound to the target. */
export const canBind = (op: string, target: Target): boolean =>
  op === target.op || op === oneTokenSibling(target.op);

const opOfNode = (unit: Unit, node: GraphNode): string => (unit.op === 'head_norm' ? 'head_norm' : node.op);

/** A span of consecutive whole units that one lab kernel can replace: its position in the unit list and its target. */
interface UnitSpan {
  readonly first: number;
  readonly count: number;
  readonly target: Target;
  readonly site: BindingSite;
}

/** True when the unit reads the output of an earlier norm. */
const readsNormed = (unit: Unit | undefined): boolean =>
  (unit?.op === 'matmul' && unit.from === 'normed') || unit?.op === 'route';

/** Every span, in unit order. */
function spansOf(units: readonly Unit[]): UnitSpan[] {
  const spans: UnitSpan[] = [];
  const add = (first: number, count: number, op: string, id: string, site: BindingSite) => {
    const nodes = units.slice(first, first + count).flatMap((unit) => unit.nodes);
    spans.push({ first, count, target: { id, op, nodes, isSpan: true }, site });
  };
  for (const [i, unit] of units.entries()) {
    const contract = contractOfUnit(unit);
    if (contract) add(i, 1, contract.op, unit.id, contract.site);
    if (unit.op !== 'matmul') continue;
    // Example: `layers.3.ffn.gate_up` with its preceding norm becomes `layers.3.ffn.norm_gate_up`.
    const joinedName = (prefix: string, suffix = '') => unit.id.replace(/[^.]+$/, `${prefix}$&${suffix}`);
    const [before, after] = [units[i - 1], units[i + 1]];
    // A span that includes the norm writes no normed rows, so no other unit may read them.
    const norm = before?.op === 'rms_norm' && !readsNormed(after) ? before : undefined;
    const gated =
      after?.op === 'gated_activation' && unit.biases.length === 0
        ? ({ gated: after.activation, to: 'activated' } as const)
        : undefined;
    // The sampled rows are gathered from the residual stream before the norm.
    const normed = norm && { normWeight: norm.weight, from: unit.sampled ? 'last' : norm.from };
    if (normed && !unit.add) add(i - 1, 2, 'norm_matmul', joinedName('norm_'), productSite(unit, normed));
    if (gated) add(i, 2, 'gated_matmul', joinedName('', '_act'), productSite(unit, gated));
    if (normed && gated) {
      const site = productSite(unit, { ...normed, ...gated });
      add(i - 1, 3, 'norm_gated_matmul', joinedName('norm_', '_act'), site);
    }
  }
  return spans;
}

/**
 * All bind targets of a graph: nodes in order, then spans. A graph for embeddings lists its nodes for display only;
 * nothing can be bound to them.
 */
export function targetsOf(graph: Graph): Target[] {
  const nodes = graph.units.flatMap((unit) =>
    unit.nodes.map((node) => ({ id: node.id, op: opOfNode(unit, node), nodes: [node], isSpan: false })),
  );
  const spans = graph.shape.embedding ? [] : spansOf(graph.units);
  return [...nodes, ...spans.map(({ target }) => target)];
}

/**
 * Returns the units of the graph with every bound target replaced by its kernel. Targets must not overlap.
 * @param unfused kernels for the ops that exist as built-ins only in fused form: `add`, `rope`, `kv_write`
 */
export function bindUnits(
  graph: Graph,
  bindings: readonly Binding[],
  unfused: ReadonlyMap<string, LabKernel>,
): PlanUnit[] {
  const byTarget = new Map(bindings.map((one) => [one.target, one.kernel]));
  const spans = spansOf(graph.units).filter(({ target }) => byTarget.has(target.id));
  const units: PlanUnit[] = [];
  for (let i = 0; i < graph.units.length; i++) {
    const span = spans.find(({ first }) => first === i);
    if (span) {
      units.push(...bindSpan(span, byTarget.get(span.target.id) as LabKernel));
      i += span.count - 1;
      continue;
    }
    const unit = graph.units[i] as Unit;
    units.push(
      ...(unit.nodes.some((node) => byTarget.has(node.id)) ? bindNodes(unit, byTarget, unfused) : [unit]),
    );
  }
  return units;
}

type KernelsByTarget = ReadonlyMap<string, LabKernel>;

function bindSpan({ count, target, site }: UnitSpan, kernel: LabKernel): PlanUnit[] {
  const unit: LabUnit = { op: 'lab', id: target.id, nodes: target.nodes, kernel, site };
  // A span that begins with a norm of sampled rows reads them where they are gathered.
  return count > 1 && site.from === 'last' ? [gatherFor(target, 'last'), unit] : [unit];
}

/** Replaces the bound nodes of a unit, node by node. */
function bindNodes(unit: Unit, byTarget: KernelsByTarget, unfused: KernelsByTarget): PlanUnit[] {
  const [node] = unit.nodes as [GraphNode];
  const kernelOf = (one: GraphNode) => byTarget.get(one.id);
  return bindUnitNodes(unit, {
    node,
    boundKernel: kernelOf(node),
    kernelOf,
    kernelFor(one) {
      const own = kernelOf(one) ?? unfused.get(one.op);
      if (!own) throw new Error(`${one.id}: no separate kernel for '${one.op}'`);
      return own;
    },
    replace: (one, kernel, site) => ({ op: 'lab', id: one.id, nodes: [one], kernel, site }),
  });
}

/** The bindings of `present` that share a node with one of `added`. */
export function overlappingBindings(
  graph: Graph,
  present: readonly Binding[],
  added: readonly Binding[],
): Binding[] {
  const nodesOf = new Map(targetsOf(graph).map((one) => [one.id, one.nodes.map(({ id }) => id)]));
  const boundNodes = new Set(added.flatMap(({ target }) => nodesOf.get(target) ?? []));
  return present.filter(({ target }) => (nodesOf.get(target) ?? []).some((id) => boundNodes.has(id)));
}

/**
 * Splits bindings into those for single-token steps and those for all other steps. For single-token steps, kernels of
 * `tokens: one` contracts take precedence.
 */
export function bindingsByStep(
  graph: Graph,
  bindings: readonly Binding[],
): { singleToken: readonly Binding[]; multiToken: readonly Binding[] } {
  const multiToken = bindings.filter(({ kernel }) => kernel.contract.tokens === 'any');
  const single = bindings.filter(({ kernel }) => kernel.contract.tokens === 'one');
  const superseded = new Set(overlappingBindings(graph, multiToken, single));
  return { singleToken: [...multiToken.filter((one) => !superseded.has(one)), ...single], multiToken };
}
