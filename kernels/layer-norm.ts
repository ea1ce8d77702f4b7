import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';
import { rowLaneOptions } from './rms-norm.ts';

export interface LayerNormVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  WG: number;
}

const variants = lazily(() => variantsOnAllAdapters(layerNormOptions));

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

/** The default first. */
export const layerNormOptions = (caps: AdapterCaps): readonly LayerNormVariant[] =>
  rowLaneOptions(caps).map((lanes) => ({ ...lanes }));
