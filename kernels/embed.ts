import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';
import { formatNames } from './formats.ts';

/**
 * y[t, c] = W[id[t], c] * scale. The id can refer to the token last sampled for the slot. With `norm`, also writes
 * scaled = y * norm_weight and a sum of squares for every PART columns, for the next norm.
 */
export const embed = defineKernel({
  op: 'embed',
  source: 'embed.wgsl',
  bindings: () => [
    ['quants', 'read'],
    ['scales', 'read'],
    ['token', 'read'],
    ['sampled', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
    ['squares', 'read_write'],
    ['norm_weight', 'read'],
    ['scaled', 'read_write'],
  ],
  params: [
    ['rows', 'u32'],
    ['first_row', 'u32'],
    ['blocks', 'u32'],
    ['scale', 'f32'],
    ['norm', 'u32'],
  ],
  grid: (
    variant: { FORMAT: string; WG: number; PART: number },
    params: { blocks: number } & Record<string, number>,
    dims,
  ) => [ceilDiv((params.blocks * 32) / variant.PART, variant.WG), dims.tokens, 1],
  variants: cartesianProduct({ FORMAT: formatNames, WG: [64], PART: [4, 8, 16, 32] }),
});
