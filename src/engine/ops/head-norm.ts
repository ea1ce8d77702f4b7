/** RMS norm of the heads of q, k or v. */
import { chooseRmsNorm, rmsNorm, rowLaneOptions } from '../../../kernels/rms-norm.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { rowSteps } from '../execution/measured-steps.ts';
import { kernelCaps, type PlanContext, strideOf, vectorOf } from '../execution/plan-context.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { FusedOp } from '../graph/fusion.ts';
import { layerShape, type UnitBase } from '../graph/graph.ts';
import { type BindingSite, f32Bytes, type Op, unitCost } from './op.ts';

/** RMS norm of each head of q, k or v inside `qkv`. */
export interface HeadNormUnit extends UnitBase {
  readonly op: 'head_norm';
  readonly part: 'q' | 'k' | 'v';
  readonly weight: string;
  readonly firstHead: number;
  readonly heads: number;
  readonly layer: number;
}

export const headNorm: Op<HeadNormUnit> = {
  plan: planHeadNorm,
  hasChoices: true,
  vectors: ({ weight }) => [[weight]],
  cost(unit, { tokens, layer: { headDim } }) {
    const values = tokens * unit.heads * headDim;
    return unitCost(4 * values, 2 * values, { weightBytes: headDim * f32Bytes });
  },
  bind: (unit, { node, boundKernel, replace }) =>
    boundKernel ? [replace(node, boundKernel, headNormSite(unit))] : [unit],
};

/** Tensors of a lab kernel of `head_norm`. */
const headNormSite = (unit: HeadNormUnit): BindingSite => ({
  vectors: [[unit.weight]],
  inputs(context) {
    const { memory, graph } = context;
    const { headDim } = layerShape(graph.shape, unit.layer);
    const dims = { count: unit.heads, head_dim: headDim };
    const stride = strideOf(context, 'qkv', unit.layer);
    return [
      {
        buffers: { qkv: memory.buffers.qkv, norm_weight: vectorOf(context, unit.weight) },
        params: { ...dims, stride, offset: unit.firstHead * headDim, eps: graph.shape.eps },
        dims,
      },
    ];
  },
});

function planHeadNorm(
  context: PlanContext,
  unit: HeadNormUnit,
  { promptOnly = false }: FusedOp,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { eps } = graph.shape;
  const weight = vectorOf(context, unit.weight);
  const { headDim } = layerShape(graph.shape, unit.layer);
  const stride = strideOf(context, 'qkv', unit.layer);
  const offset = unit.firstHead * headDim;
  const caps = kernelCaps(context, rmsNorm.source);
  const mode = { inPlace: true, prompt: promptOnly };
  return planFastest(
    context,
    unit.id,
    {
      subject: `rms_norm of ${unit.heads} heads of ${headDim}${promptOnly ? ' of prompts' : ''}`,
      steps: rowSteps(context, { promptOnly }),
      options: optionsOf(
        rmsNorm,
        rowLaneOptions(caps).map((lanes) => chooseRmsNorm(caps, mode, lanes)),
      ),
      output: activation(context, 'qkv', true),
    },
    {
      columns: headDim,
      heads: unit.heads,
      in_stride: stride,
      in_offset: offset,
      out_stride: stride,
      out_offset: offset,
      eps,
    },
    { weight, y: memory.buffers.qkv },
  );
}
