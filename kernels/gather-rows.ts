import { ceilDiv, defineKernel } from './define.ts';

/** y[s] = x[row of sample s], for lab kernels that need contiguous rows. */
export const gatherRows = defineKernel({
  op: 'gather_rows',
  source: 'gather_rows.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['x', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [['columns', 'u32']],
  grid: (variant: { WG: number }, params: { columns: number } & Record<string, number>, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.samples,
    1,
  ],
  variants: [{ WG: 64 }],
});
