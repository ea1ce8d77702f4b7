/** RMS norm of rows. */
import { chooseRmsNorm, rmsNorm as kernel, rowLaneOptions } from '../../../kernels/rms-norm.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { rowSteps } from '../execution/measured-steps.ts';
import { kernelCaps, type PlanContext, strideOf, vectorOf } from '../execution/plan-context.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase, BufferName } from '../graph/graph.ts';
import { type BindingSite, f32Bytes, type Op, unitCost } from './op.ts';
import { gatherFor } from './gather.ts';

export interface RmsNormUnit extends UnitBase {
  readonly op: 'rms_norm';
  readonly weight: string;
  readonly from: BufferName;
  readonly to: BufferName;
  readonly sampled: boolean;
}

export const rmsNorm: Op<RmsNormUnit> = {
  plan: planRmsNorm,
  hasChoices: true,
  vectors: ({ weight }) => [[weight]],
  cost(unit, { tokens, samples, shape: { width } }) {
    const count = unit.sampled ? samples : tokens;
    return unitCost(4 * count * width, 2 * count * width, { weightBytes: width * f32Bytes });
  },
  bind(unit, { node, boundKernel, replace }) {
    if (!boundKernel) return [unit];
    return unit.sampled
      ? [
          gatherFor({ id: node.id, nodes: [node] }, 'normed'),
          replace(node, boundKernel, normSite({ ...unit, from: 'normed' })),
        ]
      : [replace(node, boundKernel, normSite(unit))];
  },
};

/** Tensors of a lab kernel of `rms_norm`. */
export const normSite = ({
  weight,
  from,
  to,
  sampled,
}: Pick<RmsNormUnit, 'weight' | 'from' | 'to' | 'sampled'>): BindingSite => ({
  from,
  vectors: [[weight]],
  inputs(context) {
    const { memory, graph } = context;
    const { width, eps } = graph.shape;
    return [
      {
        buffers: {
          x: memory.buffers[from],
          y: memory.buffers[to],
          norm_weight: vectorOf(context, weight),
        },
        params: { columns: width, eps },
        dims: { columns: width },
        rows: sampled ? 'samples' : 'tokens',
      },
    ];
  },
});

function planRmsNorm(context: PlanContext, unit: RmsNormUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { eps, width } = graph.shape;
  const weight = vectorOf(context, unit.weight);
  const caps = kernelCaps(context, kernel.source);
  const { sampled } = unit;
  return planFastest(
    context,
    unit.id,
    {
      subject: `rms_norm of ${width}${sampled ? ', sampled' : ''}`,
      steps: rowSteps(context),
      options: optionsOf(
        kernel,
        rowLaneOptions(caps).map((lanes) => chooseRmsNorm(caps, { sampled }, lanes)),
      ),
      output: sampled
        ? { ...activation(context, unit.to), words: ({ samples }) => samples * strideOf(context, unit.to) }
        : activation(context, unit.to),
    },
    {
      columns: width,
      heads: 1,
      in_stride: strideOf(context, unit.from),
      in_offset: 0,
      out_stride: strideOf(context, unit.to),
      out_offset: 0,
      eps,
    },
    { weight, x: memory.buffers[unit.from], y: memory.buffers[unit.to] },
    unit.sampled ? 'samples' : 'tokens',
  );
}
