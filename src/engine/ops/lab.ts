/** Lab kernels that are bound to the graph. */
import { labNormWeight, labVectors, planLab } from '../execution/lab-plan.ts';
import type { LabUnit } from '../graph/bindings.ts';
import type { PlanOp } from './op.ts';

export const lab: PlanOp<LabUnit> = {
  plan: planLab,
  vectors: (unit) => [labVectors(unit), [labNormWeight(unit) ?? []].flat()],
};
