import { sigmoidGate as kernel } from '../../../kernels/sigmoid-gate.ts';
import { type PlanContext, strideOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import { layerShape, type UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** context *= sigmoid(mixed), for all heads of an attention layer. */
export interface SigmoidGateUnit extends UnitBase {
  readonly op: 'sigmoid_gate';
  readonly layer: number;
}

export const sigmoidGate: Op<SigmoidGateUnit> = {
  plan: planSigmoidGate,
  cost: (_, { tokens, layer: { context } }) => unitCost(8 * tokens * context, 3 * tokens * context),
};

function planSigmoidGate(context: PlanContext, unit: SigmoidGateUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { heads, headDim } = layerShape(graph.shape, unit.layer);
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64 }),
    {
      columns: heads * headDim,
      stride: strideOf(context, 'context', unit.layer),
      gate_stride: strideOf(context, 'mixed', unit.layer),
    },
    { gate: memory.buffers.mixed, y: memory.buffers.context },
  );
}
