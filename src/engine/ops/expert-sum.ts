import { expertSum as kernel } from '../../../kernels/experts.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { expertsOf } from './experts.ts';
import { type Op, unitCost } from './op.ts';

/** hidden += the sum of a token's expert outputs, each times its share. */
export interface ExpertSumUnit extends UnitBase {
  readonly op: 'expert_sum';
}

export const expertSum: Op<ExpertSumUnit> = {
  plan: planExpertSum,
  cost: (_, { tokens, shape: { experts, width } }) =>
    unitCost(2 * tokens * (experts?.used ?? 0) * width, tokens * ((experts?.used ?? 0) + 2) * width),
};

function planExpertSum(context: PlanContext, unit: ExpertSumUnit): Promise<PlannedDispatch> {
  const { experts, memory } = expertsOf(context);
  const { buffers } = context.memory;
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64 }),
    { quads: context.graph.shape.width / 4, used: experts.used },
    { x: buffers.expert_out, routes: memory.routed, hidden: buffers.hidden },
  );
}
