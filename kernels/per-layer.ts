/** Kernels for Gemma 3n and 4: per-layer inputs, scaling and softcap. */
import { type AdapterCaps, ceilDiv, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';
import { formatNames } from './formats.ts';
import { rowLanes } from './rms-norm.ts';

interface JoinVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  SUBGROUPS: boolean;
  WG: number;
}

const joinVariants = lazily(() =>
  variantsOnAllAdapters((caps) => formatNames.map((format) => choosePerLayerJoin(caps, format))),
);

/**
 * y[t, l] = (RMS norm of y[t, l] + rows[t, l] * row_scale) * scale, in place. y and rows: [tokens, layers, columns];
 * rows are in a weight format.
 */
export const perLayerJoin = defineKernel({
  op: 'per_layer_join',
  source: 'per_layer_join.wgsl',
  bindings: () => [
    ['quants', 'read'],
    ['scales', 'read'],
    ['weight', 'read'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['layers', 'u32'],
    ['blocks', 'u32'],
    ['eps', 'f32'],
    ['row_scale', 'f32'],
    ['scale', 'f32'],
  ],
  grid: (_variant: JoinVariant, params: { layers: number } & Record<string, number>, dims) => [
    params.layers,
    dims.tokens,
    1,
  ],
  get variants() {
    return joinVariants();
  },
});

export const choosePerLayerJoin = (caps: AdapterCaps, format: string): JoinVariant => ({
  FORMAT: format,
  ...rowLanes(caps),
});

/** gate[t, c] = gelu_tanh(gate[t, c]) * inputs[t, in_offset + c], in place. */
export const perLayerGate = defineKernel({
  op: 'per_layer_gate',
  source: 'per_layer_gate.wgsl',
  bindings: () => [
    ['gate', 'read_write'],
    ['inputs', 'read'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['in_stride', 'u32'],
    ['in_offset', 'u32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number } & Record<string, number>, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [{ WG: 64 }],
});

/** y[t, c] *= scale, in place. */
export const scale = defineKernel({
  op: 'scale',
  source: 'scale.wgsl',
  bindings: () => [
    ['y', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['scale', 'f32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number } & Record<string, number>, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [{ WG: 64 }],
});

/** y[s, c] = cap * tanh(y[s, c] / cap), in place, for sampled rows. */
export const softcap = defineKernel({
  op: 'softcap',
  source: 'softcap.wgsl',
  bindings: () => [
    ['y', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['columns', 'u32'],
    ['cap', 'f32'],
  ],
  grid: (variant: { WG: number }, params: { columns: number } & Record<string, number>, dims) => [
    ceilDiv(params.columns, variant.WG),
    dims.samples,
    1,
  ],
  variants: [{ WG: 64 }],
});
