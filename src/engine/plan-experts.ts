/** Feed-forwards of which a token has a few out of many. */
import type { PlanUnit } from './bindings.ts';
import type { ExpertUnit } from './graph.ts';
import type { PlanContext } from './plan-context.ts';
import type { Planned } from './plan-dispatch.ts';

type UnitOf<Op extends ExpertUnit['op']> = Extract<ExpertUnit, { readonly op: Op }>;

const missing = (id: string): never => {
  throw new Error(`${id}: no kernel`);
};

/** The vectors that a unit's plan binds. */
export const expertVectors = (unit: PlanUnit): (readonly string[])[] =>
  unit.op === 'expert_matmul' && unit.bias !== undefined ? [[unit.bias]] : [];

export const planRoute = (_: PlanContext, { id }: UnitOf<'route'>): Promise<Planned[]> => missing(id);
export const planExpertMatmul = (_: PlanContext, { id }: UnitOf<'expert_matmul'>): Promise<Planned[]> =>
  missing(id);
export const planExpertSum = (_: PlanContext, { id }: UnitOf<'expert_sum'>): Promise<Planned> => missing(id);
