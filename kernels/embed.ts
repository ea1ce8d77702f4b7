import { ceilDiv, combinations, defineKernel } from './define.ts';
import { formatNames } from './formats.ts';

/** y[t, c] = W[id[t], c] * scale; the id may be the token that the slot sampled last. */
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
  ],
  params: [
    ['rows', 'u32'],
    ['first_row', 'u32'],
    ['blocks', 'u32'],
    ['scale', 'f32'],
  ],
  grid: (
    variant: { FORMAT: string; WG: number },
    params: { blocks: number } & Record<string, number>,
    dims,
  ) => [ceilDiv(params.blocks * 8, variant.WG), dims.tokens, 1],
  variants: combinations({ FORMAT: formatNames, WG: [64] }),
});
