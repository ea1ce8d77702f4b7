import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';

export interface LayerNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
}

const variants = lazily(() => variantsOnAllAdapters((caps) => [chooseLayerNorm(caps)]));

/** y[t, c] = (y[t, c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], in place, one row for each token. */
export const layerNorm = defineKernel({
  op: 'layer_norm',
  source: 'layer_norm.wgsl',
  bindings: () => [
    ['affine', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['eps', 'f32'],
  ],
  grid: (_: LayerNormVariant, __: { columns: number; eps: number }, dims) => [dims.tokens, 1, 1],
  get variants() {
    return variants();
  },
});

export function chooseLayerNorm(caps: AdapterCaps): LayerNormVariant {
  // A single subgroup needs no barrier, which is best on a CPU. A GPU is faster with more threads for each row.
  const lanes = caps.software ? (caps.subgroupSize ?? 0) : 0;
  return { SUBGROUPS: lanes > 0, WG: lanes || 128 };
}
