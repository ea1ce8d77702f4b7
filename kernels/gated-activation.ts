import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';

/**
 * y[t, c] = silu(gate[t, c]) * up[t, c], with gate and up in one row; with GELU_TANH, GELU (tanh approximation) instead
 * of silu.
 */
export const gatedActivation = defineKernel({
  op: 'gated_activation',
  source: 'gated_activation.wgsl',
  bindings: () => [
    ['gate_up', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['out_stride', 'u32'],
  ],
  grid: (
    variant: { WG: number; GELU_TANH: boolean },
    params: { columns: number } & Record<string, number>,
    dims,
  ) => [ceilDiv(params.columns, variant.WG), dims.tokens, 1],
  variants: cartesianProduct({ WG: [64], GELU_TANH: [false, true] }),
});
