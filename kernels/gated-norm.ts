import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';
import { rowLaneOptions } from './rms-norm.ts';

interface GatedNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
}

const variants = lazily(() => variantsOnAllAdapters(gatedNormOptions));

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
  get variants() {
    return variants();
  },
});

/** The default first. */
export const gatedNormOptions = (caps: AdapterCaps): readonly GatedNormVariant[] =>
  rowLaneOptions(caps).map((lanes) => ({ ...lanes }));
