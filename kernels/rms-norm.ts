import { cartesianProduct, defineKernel, type AdapterCaps } from './define.ts';

export interface RmsNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
  /** Rows are the sampled tokens. */
  SAMPLED: boolean;
  IN_PLACE: boolean;
  /** Skips tokens of single-token tiles. */
  PROMPT: boolean;
}

const modes = [
  { SAMPLED: false, IN_PLACE: false, PROMPT: false },
  { SAMPLED: true, IN_PLACE: false, PROMPT: false },
  { SAMPLED: false, IN_PLACE: true, PROMPT: false },
  { SAMPLED: false, IN_PLACE: true, PROMPT: true },
] as const;

/** y[r, c] = x[r, c] / sqrt(mean_c x[r, c]^2 + eps) * weight[c]. A row is a token or a head of a token. */
export const rmsNorm = defineKernel({
  op: 'rms_norm',
  source: 'rms_norm.wgsl',
  bindings: (variant: RmsNormVariant) => [
    ['weight', 'read'],
    ['samples', 'read'],
    variant.IN_PLACE ? undefined : ['x', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
    variant.PROMPT ? ['token', 'read'] : undefined,
  ],
  params: [
    ['columns', 'u32'],
    ['heads', 'u32'],
    ['in_stride', 'u32'],
    ['in_offset', 'u32'],
    ['out_stride', 'u32'],
    ['out_offset', 'u32'],
    ['eps', 'f32'],
  ],
  grid: (variant, params: { heads: number } & Record<string, number>, dims) => [
    variant.SAMPLED ? dims.samples : variant.PROMPT && dims.wideTiles === 0 ? 0 : dims.tokens,
    params.heads,
    1,
  ],
  variants: cartesianProduct({ lanes: [4, 8, 16, 32, 64, 0], mode: modes }).map(({ lanes, mode }) => ({
    SUBGROUPS: lanes > 0,
    WG: lanes || 128,
    ...mode,
  })),
});

/** Number of lanes for the norm of a row. */
export function rowLanes(caps: AdapterCaps): { SUBGROUPS: boolean; WG: number } {
  // A single subgroup needs no barrier, which is best on a CPU. A GPU is faster with more threads for each row.
  const lanes = caps.software ? (caps.subgroupSize ?? 0) : 0;
  return { SUBGROUPS: lanes > 0, WG: lanes || 128 };
}

export function chooseRmsNorm(
  caps: AdapterCaps,
  mode: { sampled?: boolean; inPlace?: boolean; prompt?: boolean },
): RmsNormVariant {
  return {
    ...rowLanes(caps),
    SAMPLED: mode.sampled ?? false,
    IN_PLACE: mode.inPlace ?? false,
    PROMPT: mode.prompt ?? false,
  };
}
