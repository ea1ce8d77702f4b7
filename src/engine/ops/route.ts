/** The router of a mixture of experts. */
import { expertOptions, maxDirectTokens } from '../../../kernels/experts.ts';
import { maxExperts, maxUsed, rangeCode, route as kernel, routeGroups } from '../../../kernels/route.ts';
import type { RowRange } from '../../../kernels/define.ts';
import type { PlanContext } from '../execution/plan-context.ts';
import { planDispatch, singleOption, type PlannedDispatch } from '../execution/plan-dispatch.ts';
import type { UnitBase } from '../graph/graph.ts';
import { expertsOf } from './experts.ts';
import { type Op, unitCost } from './op.ts';

/**
 * Selects the experts of each token and their shares from the logits in `router`, and groups tokens by expert for
 * the products.
 */
export interface RouteUnit extends UnitBase {
  readonly op: 'route';
  /**
   * How shares are computed: softmax over all experts, normalized to sum to 1 or not, or softmax over the
   * selected experts.
   */
  readonly shares: 'of_all' | 'of_all_normalised' | 'of_chosen';
  /** Factor for all shares. */
  readonly scale: number;
}

export const route: Op<RouteUnit> = {
  plan: planRoute,
  cost: (_, { tokens, shape: { experts } }) =>
    unitCost(5 * tokens * (experts?.count ?? 0), tokens * (experts?.count ?? 0)),
};

async function planRoute(context: PlanContext, unit: RouteUnit): Promise<PlannedDispatch[]> {
  const { experts, memory } = expertsOf(context);
  const { count, used } = experts;
  const { buffers } = context.memory;
  // Groups have the tile size of the products that run in such a step.
  const options = expertOptions(context.gpu.caps, context.family, 'f32', experts).map(
    ({ kernel: { rows }, variant, upTo }) => ({
      kernel: routeGroups,
      variant: { WG: 64, TILE: variant.DIRECT ? 8 : variant.COLS },
      upTo,
      ...(rows && { rows }),
    }),
  );
  const groupRows = (range: RowRange | undefined) => {
    const isPrompt = range === 'prompt';
    return planDispatch(
      context,
      `${unit.id}.${isPrompt ? 'prompt_groups' : 'groups'}`,
      options.filter(({ rows }) => rows === range),
      {
        experts: count,
        used,
        max_direct_tokens: isPrompt ? 0 : maxDirectTokens(context.family, experts),
        order_at: memory.orderAt,
        tiles_at: isPrompt ? memory.promptTilesAt : memory.tilesAt,
        range: rangeCode(range),
      },
      { routes: memory.routed },
    );
  };
  return Promise.all([
    planDispatch(
      context,
      unit.id,
      singleOption(kernel, { WG: 64, MOST: maxExperts, MOST_USED: maxUsed }),
      { experts: count, used, of_all: unit.shares === 'of_all' ? 1 : 0, scale: unit.scale },
      { logits: buffers.router, routes: memory.routed },
    ),
    ...new Set(options.map(({ rows }) => rows)).values().map(groupRows),
  ]);
}
