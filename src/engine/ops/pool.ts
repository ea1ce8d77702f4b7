import { pool as kernel, poolModes } from '../../../kernels/pool.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase, BufferName } from '../graph/graph.ts';
import { type Op, unitCost } from './op.ts';

/** Pools the rows of a sequence in `from` into one row of `last`. */
export interface PoolUnit extends UnitBase {
  readonly op: 'pool';
  readonly from: BufferName;
}

export const pool: Op<PoolUnit> = {
  plan: planPool,
  cost: (_, { tokens, samples, shape: { width } }) => unitCost(tokens * width, (tokens + samples) * width),
};

function planPool(context: PlanContext, unit: PoolUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  const { width, embedding } = graph.shape;
  if (!embedding) throw new Error(`${unit.id}: the model has no pooling`);
  return planDispatch(
    context,
    unit.id,
    singleOption(kernel, { WG: 64 }),
    { columns: width, mode: poolModes[embedding.pooling] },
    { x: memory.buffers[unit.from], y: memory.buffers.last },
    'samples',
  );
}
