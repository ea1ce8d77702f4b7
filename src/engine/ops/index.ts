/** All ops, by name. */
import { attention } from './attention.ts';
import { deltaNet } from './delta-net.ts';
import { embed } from './embed.ts';
import { expertMatmul } from './expert-matmul.ts';
import { expertSum } from './expert-sum.ts';
import { gatedActivation } from './gated-activation.ts';
import { gatedNorm } from './gated-norm.ts';
import { gelu } from './gelu.ts';
import { headNorm } from './head-norm.ts';
import { layerNorm } from './layer-norm.ts';
import { matmul } from './matmul.ts';
import { normAdd } from './norm-add.ts';
import { perLayerGate } from './per-layer-gate.ts';
import { perLayerJoin } from './per-layer-join.ts';
import { pool } from './pool.ts';
import { positionEmbed } from './position-embed.ts';
import { rmsNorm } from './rms-norm.ts';
import { ropeKvWrite } from './rope-kv-write.ts';
import { route } from './route.ts';
import { logprobs, sample, sampleAdjust } from './sample.ts';
import { scale } from './scale.ts';
import { shortConv } from './short-conv.ts';
import { sigmoidGate } from './sigmoid-gate.ts';
import { softcap } from './softcap.ts';
import { gather } from './gather.ts';
import { lab } from './lab.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { type Graph, layerShape } from '../graph/graph.ts';
import type { CostContext, NodeBinder, Op, PlanOp, StepShape, UnitContract, UnitCost } from './op.ts';

/** The ops of graphs. */
export const ops = {
  embed,
  rms_norm: rmsNorm,
  head_norm: headNorm,
  matmul,
  norm_add: normAdd,
  rope_kv_write: ropeKvWrite,
  attention,
  gated_activation: gatedActivation,
  sample,
  position_embed: positionEmbed,
  layer_norm: layerNorm,
  gelu,
  pool,
  short_conv: shortConv,
  delta_net: deltaNet,
  gated_norm: gatedNorm,
  sigmoid_gate: sigmoidGate,
  route,
  expert_matmul: expertMatmul,
  expert_sum: expertSum,
  per_layer_join: perLayerJoin,
  per_layer_gate: perLayerGate,
  scale,
  softcap,
};

type UnitOfOp<O> = O extends Op<infer U> ? U : never;

/** A unit of any op. */
export type Unit = { [Name in keyof typeof ops]: UnitOfOp<(typeof ops)[Name]> }[keyof typeof ops];

/** The ops of plans, which also have lab kernels and what runs beside them. */
const planOps = { ...ops, lab, gather, sample_adjust: sampleAdjust, logprobs };

const opOf = ({ op }: PlanUnit): PlanOp<PlanUnit> => planOps[op] as unknown as PlanOp<PlanUnit>;
const graphOpOf = ({ op }: Unit): Op<Unit> => ops[op] as unknown as Op<Unit>;

export const planUnit = async (context: PlanContext, fusedOp: FusedOp): Promise<PlannedDispatch[]> =>
  [await opOf(fusedOp.unit).plan(context, fusedOp.unit, fusedOp)].flat();

/** Whether the plan of a unit may leave choices to measurements. */
export const hasChoices = ({ unit }: FusedOp): boolean => opOf(unit).hasChoices === true;

/** The vectors that the plan of a unit binds, each a list of tensors that are stored consecutively. */
export const vectorsOfUnit = (fusedOp: FusedOp): readonly (readonly string[])[] =>
  opOf(fusedOp.unit).vectors?.(fusedOp.unit, fusedOp) ?? [];

/** Weight matrices of a unit that are loaded as one stack. */
export const matricesOf = (unit: Unit): readonly string[] => graphOpOf(unit).matrices?.(unit) ?? [];

/** Operations and bytes of one unit in one step, whatever the kernel. */
export function estimateUnitCost(
  unit: Unit,
  { shape }: Graph,
  tensors: CostContext['tensors'],
  step: StepShape,
): UnitCost {
  const layer = layerShape(shape, unit.nodes[0]?.layer);
  return graphOpOf(unit).cost(unit, { ...step, shape, layer, tensors });
}

/** Replaces the bound nodes of a unit, node by node. @throws Error where the lab has no such op */
export function bindUnitNodes(unit: Unit, binder: NodeBinder): PlanUnit[] {
  const { bind } = graphOpOf(unit);
  if (!bind) throw new Error(`${binder.node.id}: the lab has no op '${binder.node.op}'`);
  return bind(unit, binder);
}

/** The contract of a lab kernel that replaces a whole unit of several nodes, if there is one. */
export const contractOfUnit = (unit: Unit): UnitContract | undefined => graphOpOf(unit).span?.(unit);
