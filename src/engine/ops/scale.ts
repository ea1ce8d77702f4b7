import { scale as kernel } from '../../../kernels/per-layer.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** hidden *= scale. */
export interface ScaleUnit extends UnitBase {
  readonly op: 'scale';
  readonly scale: number;
}

export const scale: Op<ScaleUnit> = {
  plan: planScale,
  cost: (_, { tokens, shape: { width } }) => unitCost(tokens * width, 2 * tokens * width),
};

function planScale(context: PlanContext, unit: ScaleUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const params = { columns: graph.shape.width, scale: unit.scale };
  return planDispatch(context, unit.id, singleOption(kernel, { WG: 64 }), params, {
    y: memory.buffers.hidden,
  });
}
