/** Plans mixture-of-experts feed-forwards. */
import { expertFlags, expertOptions, expertSum, maxDirectTokens } from '../../../kernels/experts.ts';
import { maxExperts, maxUsed, route, routeGroups } from '../../../kernels/route.ts';
import type { PlanUnit } from '../graph/bindings.ts';
import { type ExpertMemory, expertRoles } from '../memory/expert-memory.ts';
import type { ExpertShape, ExpertUnit } from '../graph/graph.ts';
import { type PlanContext, stackOf, vectorOf } from './plan-context.ts';
import { singleOption, planDispatch, loopLimit, dispatchId, type PlannedDispatch } from './plan-dispatch.ts';

type UnitOf<Op extends ExpertUnit['op']> = Extract<ExpertUnit, { readonly op: Op }>;

/** The vectors that a unit's plan binds. */
export const expertVectors = (unit: PlanUnit): (readonly string[])[] =>
  unit.op === 'expert_matmul' && unit.bias !== undefined ? [[unit.bias]] : [];

export async function planRoute(context: PlanContext, unit: UnitOf<'route'>): Promise<PlannedDispatch[]> {
  const { experts, memory } = expertsOf(context);
  const { count, used } = experts;
  const { buffers } = context.memory;
  // Groups have the tile size of the products that run in such a step.
  const groups = expertOptions(context.gpu.caps, context.family, 'f32', experts).map(
    ({ variant, upTo, promptOnly = false }) => ({
      kernel: routeGroups,
      variant: { WG: 64, TILE: variant.DIRECT ? 8 : variant.COLS },
      upTo,
      promptOnly,
    }),
  );
  return Promise.all([
    planDispatch(
      context,
      unit.id,
      singleOption(route, { WG: 64, MOST: maxExperts, MOST_USED: maxUsed }),
      { experts: count, used, of_all: unit.shares === 'of_all' ? 1 : 0, scale: unit.scale },
      { logits: buffers.router, routes: memory.routed },
    ),
    planDispatch(
      context,
      `${unit.id}.groups`,
      groups,
      {
        experts: count,
        used,
        max_direct_tokens: maxDirectTokens(context.family, experts),
        order_at: memory.orderAt,
        tiles_at: memory.tilesAt,
      },
      { routes: memory.routed },
    ),
  ]);
}

export function planExpertMatmul(
  context: PlanContext,
  unit: UnitOf<'expert_matmul'>,
): Promise<PlannedDispatch[]> {
  const { experts, memory } = expertsOf(context);
  const { count, used } = experts;
  const { buffers, dummyRead } = context.memory;
  const { parts } = stackOf(context, [unit.weight]);
  const rows = parts.reduce((sum, part) => sum + part.rows, 0) / count;
  const isUp = unit.role === 'up';
  const flags =
    (unit.bias === undefined ? 0 : expertFlags.bias) |
    (unit.role === 'down' ? expertFlags.paired : 0) |
    (isUp ? expertFlags.gated : 0) |
    (isUp && unit.activation === 'swiglu_oai' ? expertFlags.oai : 0);
  const [from, to] = buffersByRole[unit.role];
  return Promise.all(
    parts.map((part, index) =>
      planDispatch(
        context,
        dispatchId(unit.id, index),
        expertOptions(context.gpu.caps, context.family, part.format, experts),
        {
          rows,
          blocks: part.blocks,
          first_expert: part.firstRow / rows,
          experts: part.rows / rows,
          used,
          flags,
          order_at: memory.orderAt,
          tiles_at: memory.tilesAt,
          computed_at: expertRoles.indexOf(unit.role) * count,
          loop_limit: loopLimit,
          all_experts: count,
        },
        {
          quants: part.quants,
          scales: part.scales,
          vectors: unit.bias === undefined ? dummyRead : vectorOf(context, unit.bias),
          x: buffers[from],
          y: buffers[to],
          routes: memory.routed,
          gate: isUp ? buffers.expert_gate : dummyRead,
          computed: memory.computedPairs,
        },
      ),
    ),
  );
}

const buffersByRole = {
  gate: ['normed', 'expert_gate'],
  up: ['normed', 'expert_activated'],
  down: ['expert_activated', 'expert_out'],
} as const;

export function planExpertSum(context: PlanContext, unit: UnitOf<'expert_sum'>): Promise<PlannedDispatch> {
  const { experts, memory } = expertsOf(context);
  const { buffers } = context.memory;
  return planDispatch(
    context,
    unit.id,
    singleOption(expertSum, { WG: 64 }),
    { quads: context.graph.shape.width / 4, used: experts.used },
    { x: buffers.expert_out, routes: memory.routed, hidden: buffers.hidden },
  );
}

function expertsOf({ graph, memory }: PlanContext): { experts: ExpertShape; memory: ExpertMemory } {
  const { experts } = graph.shape;
  if (!experts || !memory.experts) throw new Error('the model has no experts');
  return { experts, memory: memory.experts };
}
