import { cartesianProduct, defineKernel, type AdapterCaps } from './define.ts';
import { rowLanes } from './rms-norm.ts';

export interface NormAddVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
  /** Also computes the norm of the sum. */
  NEXT: boolean;
}

/**
 * y[t] = (y[t] + x[t] / sqrt(mean(x[t]^2) + eps) * weight) * scale, and with NEXT, out[t] = RMS norm of y[t] with the
 * weight `next_weight`.
 */
export const normAdd = defineKernel({
  op: 'norm_add',
  source: 'norm_add.wgsl',
  bindings: ({ NEXT }: NormAddVariant) => [
    ['weight', 'read'],
    ['x', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
    NEXT ? ['next_weight', 'read'] : undefined,
    NEXT ? ['out', 'read_write'] : undefined,
  ],
  params: [
    ['columns', 'u32'],
    ['eps', 'f32'],
    ['scale', 'f32'],
  ],
  grid: (_variant, _params: Record<string, number>, dims) => [dims.tokens, 1, 1],
  variants: cartesianProduct({ lanes: [4, 8, 16, 32, 64, 0], NEXT: [false, true] }).map(
    ({ lanes, NEXT }) => ({
      SUBGROUPS: lanes > 0,
      WG: lanes || 128,
      NEXT,
    }),
  ),
});

export const chooseNormAdd = (
  caps: AdapterCaps,
  { writesNextNorm }: { writesNextNorm: boolean },
): NormAddVariant => ({
  ...rowLanes(caps),
  NEXT: writesNextNorm,
});
