import { gelu as kernel } from '../../../kernels/gelu.ts';
import { type PlanContext, strideOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** Exact GELU of `activated`, in place. */
export interface GeluUnit extends UnitBase {
  readonly op: 'gelu';
}

export const gelu: Op<GeluUnit> = {
  plan: planGelu,
  cost: (_, { tokens, layer: { feedForward } }) =>
    unitCost(12 * tokens * feedForward, 2 * tokens * feedForward),
};

function planGelu(context: PlanContext, unit: GeluUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64 }),
    { columns: graph.shape.feedForward, stride: strideOf(context, 'activated') },
    { y: memory.buffers.activated },
  );
}
