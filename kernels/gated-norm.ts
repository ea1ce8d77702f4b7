import { type AdapterCaps, defineKernel } from './define.ts';
import { rowLanes } from './rms-norm.ts';

interface GatedNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
}

/** RMS norm of each head of y, in place, multiplied by silu of its gate. */
export const gatedNorm = defineKernel({
  op: 'gated_norm',
  source: 'gated_norm.wgsl',
  bindings: () => [
    ['weight', 'read'],
    ['gate', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['stride', 'u32'],
    ['gate_stride', 'u32'],
    ['gate_offset', 'u32'],
    ['heads', 'u32'],
    ['eps', 'f32'],
  ],
  grid: (_: GatedNormVariant, params: { heads: number } & Record<string, number>, dims) => [
    dims.tokens,
    params.heads,
    1,
  ],
  variants: [4, 8, 16, 32, 64, 0].map((lanes) => ({ SUBGROUPS: lanes > 0, WG: lanes || 128 })),
});

export const chooseGatedNorm = (caps: AdapterCaps): GatedNormVariant => rowLanes(caps);
