import { ceilDiv, defineKernel } from './define.ts';

/** y *= sigmoid(gate), in place. */
export const sigmoidGate = defineKernel({
  op: 'sigmoid_gate',
  source: 'sigmoid_gate.wgsl',
  bindings: () => [
    ['gate', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['stride', 'u32'],
    ['gate_stride', 'u32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number } & Record<string, number>, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [{ WG: 64 }],
});
