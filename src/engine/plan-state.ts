/** Layers that keep a state in place of keys and values. */
import type { StateUnit } from './graph.ts';
import type { PlanUnit } from './bindings.ts';
import type { PlanContext } from './plan-context.ts';
import type { Planned } from './plan-dispatch.ts';

type UnitOf<Op extends StateUnit['op']> = Extract<StateUnit, { readonly op: Op }>;

const missing = (id: string): never => {
  throw new Error(`${id}: no kernel`);
};

/** The vectors that a unit's plan binds. */
export function stateVectors(unit: PlanUnit): (readonly string[])[] {
  if (unit.op === 'short_conv') return [[unit.weight], [unit.bias ?? []].flat()];
  if (unit.op === 'delta_net') return [[unit.dt, unit.a]];
  return unit.op === 'gated_norm' ? [[unit.weight]] : [];
}

export const planConv = (_: PlanContext, { id }: UnitOf<'short_conv'>): Promise<Planned> => missing(id);
export const planDeltaNet = (_: PlanContext, { id }: UnitOf<'delta_net'>): Promise<Planned[]> => missing(id);
export const planGatedNorm = (_: PlanContext, { id }: UnitOf<'gated_norm'>): Promise<Planned> => missing(id);
export const planSigmoidGate = (_: PlanContext, { id }: UnitOf<'sigmoid_gate'>): Promise<Planned> =>
  missing(id);
