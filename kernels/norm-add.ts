import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';
import { rowLaneOptions, rowLanes } from './rms-norm.ts';

export interface NormAddVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
  /** Also computes the norm of the sum. */
  NEXT: boolean;
}

const variants = lazily(() =>
  variantsOnAllAdapters((caps) =>
    [false, true].flatMap((writesNextNorm) =>
      rowLaneOptions(caps).map((lanes) => chooseNormAdd(caps, { writesNextNorm }, lanes)),
    ),
  ),
);

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
  get variants() {
    return variants();
  },
});

export const chooseNormAdd = (
  caps: AdapterCaps,
  { writesNextNorm }: { writesNextNorm: boolean },
  lanes = rowLanes(caps),
): NormAddVariant => ({
  ...lanes,
  NEXT: writesNextNorm,
});
