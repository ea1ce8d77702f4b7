/** Parity definitions of all ops: cases, oracle, built-in kernels, tolerance, description. */
import { attentionOps } from './attention.ts';
import { embed } from './embed.ts';
import { productOps } from './matrix-products.ts';
import { ropeOps } from './rope-ops.ts';
import { rowOps } from './row-ops.ts';
import { sample } from './sample.ts';
import type { LabOp } from './types.ts';

export { describeOp, tolerances } from './descriptor.ts';
export type { BuiltinBinding, BuiltinStep, CaseOptions, LabOp, LiveShape } from './types.ts';

/** By op name. */
export const labOps: ReadonlyMap<string, LabOp> = new Map(
  [embed, ...rowOps, ...ropeOps, ...attentionOps, sample, ...productOps].map((op) => [op.contract.op, op]),
);
