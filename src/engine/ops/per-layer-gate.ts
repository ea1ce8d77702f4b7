import { perLayerGate as kernel } from '../../../kernels/per-layer.ts';
import { type PlanContext, strideOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** layer_input = gelu_tanh(layer_input) * the layer's part of `per_layer`. */
export interface PerLayerGateUnit extends UnitBase {
  readonly op: 'per_layer_gate';
  readonly layer: number;
}

export const perLayerGate: Op<PerLayerGateUnit> = {
  plan: planPerLayerGate,
  cost: (_, { tokens, shape: { layerInput = 0 } }) =>
    unitCost(10 * tokens * layerInput, 3 * tokens * layerInput),
};

function planPerLayerGate(context: PlanContext, unit: PerLayerGateUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { layerInput = 0 } = graph.shape;
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64 }),
    {
      columns: layerInput,
      in_stride: strideOf(context, 'per_layer'),
      in_offset: unit.layer * layerInput,
    },
    { gate: memory.buffers.layer_input, inputs: memory.buffers.per_layer },
  );
}
