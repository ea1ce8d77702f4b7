/** activation(gate) * up. */
import { activationCodes } from '../../../kernels/contracts.ts';
import { gatedActivation as kernel } from '../../../kernels/gated-activation.ts';
import { type PlanContext, layerOf, strideOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import { layerShape, type UnitBase } from '../graph/graph.ts';
import { type BindingSite, type Op, unitCost } from './op.ts';

/** Activation function of the gate. */
export type Activation = 'silu' | 'gelu_tanh';

export interface GatedActivationUnit extends UnitBase {
  readonly op: 'gated_activation';
  readonly activation: Activation;
}

export const gatedActivation: Op<GatedActivationUnit> = {
  plan: planActivation,
  cost: (_, { tokens, layer: { feedForward } }) =>
    unitCost(5 * tokens * feedForward, 3 * tokens * feedForward),
  bind: (unit, { node, boundKernel, replace }) =>
    boundKernel ? [replace(node, boundKernel, activationSite(unit))] : [unit],
};

/** Tensors of a lab kernel of `gated_activation`. */
const activationSite = (unit: GatedActivationUnit): BindingSite => ({
  inputs(context) {
    const { memory, graph } = context;
    const layer = layerOf(unit);
    const { feedForward } = layerShape(graph.shape, layer);
    return [
      {
        buffers: { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
        params: {
          columns: feedForward,
          y_stride: strideOf(context, 'activated', layer),
          activation: activationCodes[unit.activation],
        },
        dims: { columns: feedForward },
      },
    ];
  },
});

function planActivation(context: PlanContext, unit: GatedActivationUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64, GELU_TANH: unit.activation === 'gelu_tanh' }),
    {
      columns: layerShape(graph.shape, layerOf(unit)).feedForward,
      out_stride: strideOf(context, 'activated', layerOf(unit)),
    },
    { gate_up: memory.buffers.gate_up, y: memory.buffers.activated },
  );
}
