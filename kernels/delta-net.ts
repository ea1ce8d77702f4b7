import { type AdapterCaps, defineKernel, lazily, variantsOnAllAdapters } from './define.ts';

export interface DeltaNetVariant extends Record<string, number | boolean | string> {
  SUBGROUPS: boolean;
  /** Elements of a key. */
  KEY: number;
  /** Threads that share the rows of the state. */
  LANES: number;
  /** Columns of the state in each group of lanes. */
  COLUMNS: number;
  WG: number;
}

/** Supported key dimensions. */
export const supportedDeltaKeyDims: readonly number[] = [16, 32, 64, 128];

const lanesOf = (LANES: number) =>
  LANES === 0
    ? { SUBGROUPS: false, LANES: 1, COLUMNS: 1, WG: 32 }
    : { SUBGROUPS: true, LANES, COLUMNS: 4, WG: LANES };

const variants = lazily(() =>
  variantsOnAllAdapters((caps) => supportedDeltaKeyDims.map((keyDim) => chooseDeltaNet(caps, keyDim))),
);

/** Gated delta rule over the tokens of each sequence in the step, with its recurrent state. */
export const deltaNet = defineKernel({
  op: 'delta_net',
  source: 'delta_net.wgsl',
  bindings: () => [
    ['vectors', 'read'],
    ['spans', 'read'],
    ['mixed', 'read'],
    ['state', 'read_write'],
    ['y', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['key_heads', 'u32'],
    ['value_heads', 'u32'],
    ['value_dim', 'u32'],
    ['stride', 'u32'],
    ['out_stride', 'u32'],
  ],
  grid: (
    { WG, LANES, COLUMNS }: DeltaNetVariant,
    { value_dim, value_heads }: { value_dim: number; value_heads: number } & Record<string, number>,
    dims,
  ) => [Math.ceil(value_dim / (COLUMNS * (WG / LANES))), value_heads, dims.sequenceRuns],
  get variants() {
    return variants();
  },
});

export function chooseDeltaNet({ subgroupSize = 0 }: AdapterCaps, keyDim: number): DeltaNetVariant {
  return { KEY: keyDim, ...lanesOf(subgroupSize) };
}
