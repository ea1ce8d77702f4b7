import { chooseDeltaNet, deltaNet as kernel } from '../../../kernels/delta-net.ts';
import { kernelCaps, type PlanContext, spansOf, strideOf, vectorOf } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { stackKey } from '../graph/stack-key.ts';
import { stateBufferOf } from '../memory/memory.ts';
import { f32Bytes, type Op, unitCost } from './op.ts';

/**
 * The gated delta rule over `mixed`, which holds in this order: q and k [keyHeads, keyDim] each, v [valueHeads,
 * valueDim], the output gate z [valueHeads, valueDim], and beta and alpha of each value head. The result goes to
 * `context` [valueHeads, valueDim]. State: [valueHeads, valueDim, keyDim].
 */
export interface DeltaNetUnit extends UnitBase {
  readonly op: 'delta_net';
  readonly layer: number;
  /** [valueHeads] each: the bias added to alpha, and the negative decay rate it is multiplied by. */
  readonly dt: string;
  readonly a: string;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly cache: number;
}

export const deltaNet: Op<DeltaNetUnit> = {
  plan: planDeltaNet,
  vectors: ({ dt, a }) => [[dt, a]],
  cost(unit, { tokens }) {
    const { keyHeads, valueHeads, keyDim, valueDim } = unit;
    // The state decays, is read twice and written once for every token; it is loaded and stored once for each step.
    const state = valueHeads * keyDim * valueDim;
    const values = 2 * keyHeads * keyDim + 2 * valueHeads * valueDim;
    return unitCost(tokens * 7 * state, tokens * values, { cacheBytes: 2 * state * f32Bytes });
  },
};

function planDeltaNet(context: PlanContext, unit: DeltaNetUnit): Promise<PlannedDispatch> {
  const { memory } = context;
  const { layer, keyHeads, valueHeads, keyDim, valueDim } = unit;
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, chooseDeltaNet(kernelCaps(context, kernel.source), keyDim)),
    {
      key_heads: keyHeads,
      value_heads: valueHeads,
      value_dim: valueDim,
      stride: strideOf(context, 'mixed', layer),
      out_stride: strideOf(context, 'context', layer),
    },
    {
      vectors: vectorOf(context, stackKey([unit.dt, unit.a])),
      spans: spansOf(context),
      mixed: memory.buffers.mixed,
      state: stateBufferOf(memory, unit.cache),
      y: memory.buffers.context,
    },
  );
}
