/** Rows of the residual stream whose logits are needed, for a lab kernel that reads them. */
import { gatherRows } from '../../../kernels/gather-rows.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { GatherUnit, Target } from '../graph/bindings.ts';
import type { BufferName } from '../graph/graph.ts';
import type { PlanOp } from './op.ts';

export const gather: PlanOp<GatherUnit> = {
  plan: planGather,
};

/** A unit that gathers the sampled rows into a buffer before a target. */
export const gatherFor = ({ id, nodes }: Pick<Target, 'id' | 'nodes'>, to: BufferName): GatherUnit => ({
  op: 'gather',
  id: `${id}.gather`,
  nodes,
  to,
});

function planGather(context: PlanContext, unit: GatherUnit): Promise<PlannedDispatch> {
  const { memory, graph } = context;
  return planDispatch(
    context,
    unit.id,
    singleOption(gatherRows, { WG: 64 }),
    { columns: graph.shape.width },
    { x: memory.buffers.hidden, y: memory.buffers[unit.to] },
    'samples',
  );
}
