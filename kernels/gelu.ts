import { ceilDiv, defineKernel } from './define.ts';

/** y[t, c] = gelu(y[t, c]), exact GELU with the error function, in place. */
export const gelu = defineKernel({
  op: 'gelu',
  source: 'gelu.wgsl',
  bindings: () => [
    ['y', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['stride', 'u32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number; stride: number }, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [{ WG: 64 }],
});
