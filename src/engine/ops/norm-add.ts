/** A norm that is added to the residual stream. */
import { chooseNormAdd, normAdd as kernel } from '../../../kernels/norm-add.ts';
import { rowLaneOptions } from '../../../kernels/rms-norm.ts';
import { activation, optionsOf, planFastest } from '../execution/measured-choice.ts';
import { rowSteps } from '../execution/measured-steps.ts';
import { kernelCaps, type PlanContext, vectorOf } from '../execution/plan-context.ts';
import type { PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { FusedOp } from '../graph/fusion.ts';
import type { BufferName, GraphNode, UnitBase } from '../graph/graph.ts';
import { type BindingSite, f32Bytes, type Op, unitCost } from './op.ts';
import { normSite } from './rms-norm.ts';

/** hidden += the norm of `projected`. */
export interface NormAddUnit extends UnitBase {
  readonly op: 'norm_add';
  readonly weight: string;
}

export const normAdd: Op<NormAddUnit> = {
  plan: planNormAdd,
  hasChoices: true,
  vectors: ({ weight }, { sumNormWeight }) => [[weight], [sumNormWeight ?? []].flat()],
  cost: (_, { tokens, shape: { width } }) =>
    unitCost(5 * tokens * width, 3 * tokens * width, { weightBytes: width * f32Bytes }),
  bind(unit, { kernelOf, kernelFor, replace }) {
    // Uses `normed` as scratch: it is free here, because the preceding product was its last reader.
    const [norm, sum] = unit.nodes as [GraphNode, GraphNode];
    const { weight } = unit;
    const separate = { weight, from: 'projected', to: 'normed', sampled: false } as const;
    const normKernel = kernelOf(norm);
    return [
      normKernel
        ? replace(norm, normKernel, normSite(separate))
        : { op: 'rms_norm', id: norm.id, nodes: [norm], ...separate },
      replace(sum, kernelFor(sum), addSite('normed')),
    ];
  },
  span: ({ weight }) => ({ op: 'norm_add', site: normAddSite(weight) }),
};

/** Tensors of a lab kernel of `add`, which adds `from` to the residual stream. */
export const addSite = (from: BufferName): BindingSite => ({
  from,
  inputs({ memory, graph: { shape } }) {
    const dims = { columns: shape.width };
    return [{ buffers: { x: memory.buffers[from], y: memory.buffers.hidden }, params: dims, dims }];
  },
});

/** Tensors of a lab kernel of `norm_add`. */
const normAddSite = (weight: string): BindingSite => ({
  vectors: [[weight]],
  inputs(context) {
    const { projected, hidden } = context.memory.buffers;
    const { width, eps } = context.graph.shape;
    return [
      {
        buffers: { x: projected, y: hidden, norm_weight: vectorOf(context, weight) },
        params: { columns: width, eps },
        dims: { columns: width },
      },
    ];
  },
});

function planNormAdd(
  context: PlanContext,
  unit: NormAddUnit,
  { sumNormWeight, scale = 1 }: FusedOp,
): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { eps, width } = graph.shape;
  const { projected, hidden, normed } = memory.buffers;
  const optionalBuffers =
    sumNormWeight === undefined ? {} : { next_weight: vectorOf(context, sumNormWeight), out: normed };
  const caps = kernelCaps(context, kernel.source);
  const writesNextNorm = sumNormWeight !== undefined;
  return planFastest(
    context,
    unit.id,
    {
      subject: `norm_add of ${width}${writesNextNorm ? ', with the next norm' : ''}`,
      steps: rowSteps(context),
      options: optionsOf(
        kernel,
        rowLaneOptions(caps).map((lanes) => chooseNormAdd(caps, { writesNextNorm }, lanes)),
      ),
      // The sum itself grows with every run, so it is compared after the first.
      output: activation(context, 'hidden', true),
    },
    { columns: width, eps, scale },
    { weight: vectorOf(context, unit.weight), x: projected, y: hidden, ...optionalBuffers },
  );
}
