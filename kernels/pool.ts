import { ceilDiv, defineKernel } from './define.ts';

/** Pooling modes, with the numbers of GGUF's `pooling_type`. */
export const poolModes = { mean: 1, cls: 2, last: 3 } as const;
export type PoolMode = keyof typeof poolModes;

/** y[s] = mean, first or last row of the sequence that ends at sample s. */
export const pool = defineKernel({
  op: 'pool',
  source: 'pool.wgsl',
  bindings: () => [
    ['samples', 'read'],
    ['x', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['mode', 'u32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number; mode: number }, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.samples,
    1,
  ],
  variants: [{ WG: 64 }],
});
