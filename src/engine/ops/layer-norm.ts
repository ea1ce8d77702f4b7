import { layerNorm as kernel, layerNormOptions } from '../../../kernels/layer-norm.ts';
import { kernelCaps, type PlanContext, vectorOf } from '../execution/plan-context.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { rowSteps } from '../execution/measured-steps.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { f32Bytes, type Op, unitCost } from './op.ts';

/** Layer norm of `hidden`, in place. */
export interface LayerNormUnit extends UnitBase {
  readonly op: 'layer_norm';
  readonly weight: string;
  readonly bias: string;
}

export const layerNorm: Op<LayerNormUnit> = {
  plan: planLayerNorm,
  hasChoices: true,
  vectors: ({ weight, bias }) => [[weight, bias]],
  cost: (_, { tokens, shape: { width } }) =>
    unitCost(7 * tokens * width, 2 * tokens * width, { weightBytes: 2 * width * f32Bytes }),
};

function planLayerNorm(context: PlanContext, unit: LayerNormUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { width, eps } = graph.shape;
  return planFastest(
    context,
    unit.id,
    {
      subject: `layer_norm of ${width}`,
      steps: rowSteps(context),
      options: optionsOf(kernel, layerNormOptions(kernelCaps(context, kernel.source))),
      output: activation(context, 'hidden', true),
    },
    { columns: width, eps },
    { affine: vectorOf(context, stackKey([unit.weight, unit.bias])), y: memory.buffers.hidden },
  );
}
