/** Response bodies of GET /lab/v1/graph and /lab/v1/parts: the live graph with its bound kernels. */
import { contracts } from '../../../kernels/contracts.ts';
import { emptyStepDims } from '../../../kernels/define.ts';
import {
  pipelineChoicesOf,
  canBind,
  type GraphNode,
  type LabDispatch,
  type Plan,
  type Runner,
  type Target,
} from '../../engine/index.ts';
import { compileExpression } from '../expression.ts';
import type { LabGraph, LabParts } from '../types.ts';
import type { LiveTargets } from './live-targets.ts';

/** Step dims of one decoded token. */
const oneTokenDims = {
  ...emptyStepDims,
  tokens: 1,
  decodeRows: 1,
  samples: 1,
  singleTiles: 1,
  sequenceRuns: 1,
};

/** Step dims of one text of one token, for an embedding model. */
const oneTextDims = { ...oneTokenDims, decodeRows: 0, singleTiles: 0, wideTiles: 1 };

/** Kernel and dispatch of each node for a step of one token. */
function kernelsByNode({
  runner,
  plan,
}: {
  runner: Runner;
  plan: Plan;
}): ReadonlyMap<string, { kernel: string; dispatch: string }> {
  const result = new Map<string, { kernel: string; dispatch: string }>();
  const dims = runner.graph.shape.embedding ? oneTextDims : oneTokenDims;
  for (const dispatch of plan.dispatches) {
    const kernel = pipelineChoicesOf(dispatch, dims).find((choice) => choice.grid(dims)[0] > 0)?.kernel;
    if (kernel === undefined) continue;
    // The first part of a split dispatch stands for all parts. If several dispatches cover a node, the last one wins.
    for (const node of dispatch.nodes)
      result.set(node, { kernel, dispatch: dispatch.id.split('#')[0] as string });
  }
  return result;
}

export interface TokenCost {
  readonly flops: number;
  readonly bytes: number;
}

/** Cost of one decoded token after `context` positions, from the contracts of its lab dispatches. */
export function contractCost(labDispatches: readonly LabDispatch[], context: number): TokenCost {
  let flops = 0;
  let bytes = 0;
  for (const lab of labDispatches) {
    const readPositions = Math.min(context + 1, lab.params['window'] || Number.POSITIVE_INFINITY);
    const values = { ...lab.params, ...lab.dims, tokens: 1, context: readPositions };
    flops += compileExpression(lab.kernel.contract.flops).evaluate(values);
    bytes += compileExpression(lab.kernel.contract.bytes).evaluate(values);
  }
  return { flops, bytes };
}

/** Cost of one decoded token after `context` positions for a node without a contract: an equal share of its unit. */
export function nodeCost(runner: Runner, node: string, context: number): TokenCost {
  const unit = runner.graph.units.find(({ nodes }) => nodes.some(({ id }) => id === node));
  if (!unit) return { flops: 0, bytes: 0 };
  const cost = runner.costOf(unit, { tokens: 1, position: context, samples: 1 });
  const bytes = cost.weightBytes + cost.cacheBytes + cost.activationBytes;
  return { flops: cost.flops / unit.nodes.length, bytes: bytes / unit.nodes.length };
}

const dtypeOf = (node: GraphNode, labDispatches: readonly LabDispatch[]): string =>
  labDispatches[0]?.format ?? (node.op === 'kv_write' ? 'f16' : node.op === 'sample' ? 'u32' : 'f32');

export async function describeGraph(
  model: string,
  runner: Runner,
  liveTargets: LiveTargets,
  gpuMs: ReadonlyMap<string, number>,
): Promise<LabGraph> {
  const running = kernelsByNode({ runner, plan: runner.boundPlans?.singleToken ?? runner.plan });
  const nodes: LabGraph['nodes'][number][] = [];
  const all = liveTargets.targets.filter(({ isSpan }) => !isSpan);
  const labDispatches = await dispatchesByTarget(liveTargets, all);
  const nodesById = new Map<string, GraphNode>();
  for (const target of all) {
    const [node] = target.nodes as [GraphNode];
    nodesById.set(node.id, node);
    const ownDispatches = labDispatches.get(target.id) ?? [];
    const current = running.get(node.id);
    const ms = gpuMs.get(current?.dispatch ?? '');
    nodes.push({
      id: node.id,
      op: target.op,
      component: current?.dispatch ?? node.id,
      slot: node.slot,
      kernel: current?.kernel ?? 'builtin',
      dtype: dtypeOf(node, ownDispatches),
      shape: ['tokens', node.width],
      ...(ownDispatches.length > 0 ? contractCost(ownDispatches, 0) : nodeCost(runner, node.id, 0)),
      ...(ms === undefined ? {} : { gpu_ms: ms }),
    });
  }
  // Types of the results; a node's `dtype` can be that of its weights.
  const dtypes = new Map(
    nodes.map(({ id, op }) => [id, op === 'kv_write' ? 'f16' : op === 'sample' ? 'u32' : 'f32']),
  );
  const producers = producersOf(all.map(({ nodes: [node] }) => node as GraphNode));
  const edges = [...nodesById.values()].flatMap((node) =>
    (producers.get(node.id) ?? []).map((source) => ({
      from: source,
      to: node.id,
      tensor: `${source}.out`,
      dtype: dtypes.get(source) ?? 'f32',
      shape: ['tokens', nodesById.get(source)?.width ?? 1],
    })),
  );
  const spans = liveTargets.targets
    .filter(({ isSpan }) => isSpan)
    .map(({ id, op, nodes: covered }) => {
      const dispatches = new Set(covered.map((node) => running.get(node.id)?.dispatch));
      const kernel = running.get(covered[0]?.id ?? '')?.kernel;
      const fused = dispatches.size === 1 && kernel !== undefined;
      return { id, op, nodes: covered.map((node) => node.id), ...(fused ? { fused_kernel: kernel } : {}) };
    });
  return { model, nodes, edges, spans };
}

/** Ids of the nodes whose results each node reads. A buffer name refers to the node that wrote it last. */
function producersOf(nodes: readonly GraphNode[]): ReadonlyMap<string, readonly string[]> {
  const ids = new Set(nodes.map(({ id }) => id));
  const latest = new Map<string, string>();
  const result = new Map<string, readonly string[]>();
  for (const node of nodes) {
    result.set(
      node.id,
      node.inputs.flatMap((name) => {
        if (ids.has(name)) return [name];
        const writer = latest.get(name);
        return writer === undefined ? [] : [writer];
      }),
    );
    for (const buffer of buffersWritten(node)) latest.set(buffer, node.id);
  }
  return result;
}

/** Names of the buffers that a node writes, as other nodes refer to them. */
function buffersWritten({ op, slot }: GraphNode): readonly string[] {
  if (['embed', 'add', 'position_embed', 'layer_norm', 'expert_sum', 'scale'].includes(op)) return ['hidden'];
  if (op === 'rms_norm')
    return slot.startsWith('output') ? ['last'] : slot.endsWith('_norm') ? [] : ['normed'];
  if (['attention', 'short_conv', 'delta_net', 'gated_norm', 'sigmoid_gate'].includes(op)) return ['context'];
  if (op === 'per_layer_gate') return ['layer_input'];
  if (op === 'gated_activation' || op === 'gelu') return ['activated'];
  if (op === 'pool') return ['last'];
  if (slot === 'dense_2') return ['expanded'];
  return slot === 'logits' ? ['logits'] : [];
}

/** Registered kernels, as listed in the parts response. */
export type KernelSummaries = LabParts['kernels'];

/** @param bindable kernel states in which a kernel can be bound */
export async function describeParts(
  runner: Runner,
  liveTargets: LiveTargets,
  kernels: KernelSummaries,
  bindable: ReadonlySet<KernelSummaries[number]['state']>,
): Promise<LabParts> {
  const running = kernelsByNode({ runner, plan: runner.boundPlans?.singleToken ?? runner.plan });
  const labDispatches = await dispatchesByTarget(liveTargets, liveTargets.targets);
  const kernelOf = (target: Target): string =>
    [...new Set(target.nodes.map(({ id }) => running.get(id)?.kernel ?? 'builtin'))].join(' + ');
  const components = liveTargets.targets
    .filter(({ isSpan }) => !isSpan)
    .map((target) => {
      const layer = target.nodes[0]?.layer;
      return {
        id: target.id,
        op: target.op,
        kernel: kernelOf(target),
        ...(layer === undefined ? {} : { layer }),
      };
    });
  const slots = new Map<string, LabParts['slots'][number]>();
  for (const target of liveTargets.targets) {
    const slot = target.id.replace(/^layers\.\d+\./, 'layers.*.');
    const known = slots.get(slot);
    if (known) {
      const names = new Set([...known.bound.split(', '), kernelOf(target)]);
      slots.set(slot, { ...known, bound: [...names].join(', ') });
      continue;
    }
    const bindableKernels = kernels.filter(({ op, state }) => canBind(op, target) && bindable.has(state));
    slots.set(slot, {
      slot,
      op: target.op,
      oracle: contracts.get(target.op)?.summary ?? '',
      swappable: labDispatches.has(target.id),
      compatible: bindableKernels.map(({ name }) => name),
      bound: kernelOf(target),
    });
  }
  return { components, slots: [...slots.values()], kernels };
}

async function dispatchesByTarget(
  liveTargets: LiveTargets,
  targets: readonly Target[],
): Promise<ReadonlyMap<string, readonly LabDispatch[]>> {
  const all = new Map<string, readonly LabDispatch[]>();
  for (const op of new Set(targets.map((target) => target.op))) {
    for (const [id, labDispatches] of await liveTargets.dispatches(op)) all.set(id, labDispatches);
  }
  return all;
}
