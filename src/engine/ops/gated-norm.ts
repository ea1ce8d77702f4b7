import { gatedNorm as kernel, gatedNormOptions } from '../../../kernels/gated-norm.ts';
import { kernelCaps, type PlanContext, strideOf, vectorOf } from '../execution/plan-context.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { rowSteps } from '../execution/measured-steps.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/**
 * context = RMS norm of each head of `context`, times silu of the same position of `mixed` from `gateOffset` on.
 */
export interface GatedNormUnit extends UnitBase {
  readonly op: 'gated_norm';
  readonly layer: number;
  readonly weight: string;
  readonly heads: number;
  readonly headDim: number;
  readonly gateOffset: number;
}

export const gatedNorm: Op<GatedNormUnit> = {
  plan: planGatedNorm,
  hasChoices: true,
  vectors: ({ weight }) => [[weight]],
  cost: (_, { tokens, layer: { context } }) => unitCost(8 * tokens * context, 3 * tokens * context),
};

function planGatedNorm(context: PlanContext, unit: GatedNormUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { layer, heads, headDim } = unit;
  return planFastest(
    context,
    unit.id,
    {
      subject: `gated_norm of ${heads} heads of ${headDim}`,
      steps: rowSteps(context),
      options: optionsOf(kernel, gatedNormOptions(kernelCaps(context, kernel.source))),
      output: activation(context, 'context', true),
    },
    {
      columns: headDim,
      stride: strideOf(context, 'context', layer),
      gate_stride: strideOf(context, 'mixed', layer),
      gate_offset: unit.gateOffset,
      heads,
      eps: graph.shape.eps,
    },
    { weight: vectorOf(context, unit.weight), gate: memory.buffers.mixed, y: memory.buffers.context },
  );
}
