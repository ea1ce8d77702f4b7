/** Inputs of their own for every layer, and what else Gemma 4 has. */
import type { PlanUnit } from './bindings.ts';
import type { PerLayerUnit } from './graph.ts';
import type { PlanContext } from './plan-context.ts';
import type { Planned } from './plan-dispatch.ts';

type UnitOf<Op extends PerLayerUnit['op']> = Extract<PerLayerUnit, { readonly op: Op }>;

const missing = (id: string): never => {
  throw new Error(`${id}: no kernel`);
};

/** The vectors that a unit's plan binds. */
export const perLayerVectors = (unit: PlanUnit): (readonly string[])[] =>
  unit.op === 'per_layer_join' ? [[unit.weight]] : [];

export const planJoin = (_: PlanContext, { id }: UnitOf<'per_layer_join'>): Promise<Planned[]> => missing(id);
export const planLayerGate = (_: PlanContext, { id }: UnitOf<'per_layer_gate'>): Promise<Planned> =>
  missing(id);
export const planScale = (_: PlanContext, { id }: UnitOf<'scale'>): Promise<Planned> => missing(id);
export const planSoftcap = (_: PlanContext, { id }: UnitOf<'softcap'>): Promise<Planned> => missing(id);
