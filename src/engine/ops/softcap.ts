import { softcap as kernel } from '../../../kernels/per-layer.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** logits = cap * tanh(logits / cap), for sampled rows. */
export interface SoftcapUnit extends UnitBase {
  readonly op: 'softcap';
  readonly cap: number;
}

export const softcap: Op<SoftcapUnit> = {
  plan: planSoftcap,
  cost: (_, { samples, shape: { vocabulary } }) =>
    unitCost(8 * samples * vocabulary, 2 * samples * vocabulary),
};

function planSoftcap(context: PlanContext, unit: SoftcapUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const params = { columns: graph.shape.vocabulary, cap: unit.cap };
  const buffers = { y: memory.buffers.logits };
  return planDispatch(context, unit.id, singleOption(kernel, { WG: 64 }), params, buffers, 'samples');
}
