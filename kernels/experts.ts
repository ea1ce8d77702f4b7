import type { Variant } from './assemble.ts';
import {
  type AdapterCaps,
  adapterCaps,
  ceilDiv,
  defineKernel,
  distinctVariants,
  eraseVariant,
  type Kernel,
  lazily,
  type RowRange,
  rowsIn,
} from './define.ts';
import { formatNames } from './formats.ts';
import type { MatmulFamily } from './matmul.ts';
import { maxTileCount } from './route.ts';

/** Flags of an expert product, see `wgsl/lib/expert_params.wgsl`. */
export const expertFlags = { bias: 1, paired: 2, gated: 4, oai: 8 } as const;

const paramNames = [
  ['rows', 'u32'],
  ['blocks', 'u32'],
  ['first_expert', 'u32'],
  ['experts', 'u32'],
  ['used', 'u32'],
  ['flags', 'u32'],
  ['order_at', 'u32'],
  ['tiles_at', 'u32'],
  ['computed_at', 'u32'],
  ['loop_limit', 'u32'],
  // Experts of the model; the weights of this dispatch can be a part of them.
  ['all_experts', 'u32'],
  // Tiles of the rows of prompts, for the kernel that computes only those.
  ['prompt_tiles_at', 'u32'],
] as const;
export type ExpertParams = Record<(typeof paramNames)[number][0], number>;

export interface ExpertVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  /** Computes each (token, expert) pair separately, in the order of `route`. */
  DIRECT: boolean;
  /** Pairs in a tile. */
  COLS: number;
  /** Rows of an expert that a thread or workgroup computes. */
  ROWS: number;
}

/** All of them compute y[pair, n] = sum_k W[expert of pair, n, k] x[row of pair, k], modified by the flags. */
const expertKernel = <V extends ExpertVariant>(
  source: string,
  rowsOf: (variant: V) => number,
  range?: RowRange,
): Kernel<V, ExpertParams> =>
  defineKernel({
    op: 'expert_matmul',
    source,
    ...(range && { rows: range }),
    bindings: () => [
      ['quants', 'read'],
      ['scales', 'read'],
      ['vectors', 'read'],
      ['x', 'read'],
      ['y', 'read_write'],
      ['params', 'uniform'],
      ['routes', 'read'],
      ['gate', 'read'],
      ['computed', 'read_write'],
    ],
    params: paramNames,
    grid: (variant, { rows, used, all_experts: experts }, dims) => {
      const pairs = rowsIn(range, dims) * used;
      const tiles = variant.DIRECT ? pairs : maxTileCount(pairs, experts, variant.COLS);
      return [ceilDiv(rows, rowsOf(variant)), pairs > 0 ? tiles : 0, 1];
    },
    get variants() {
      return (optionsBySource().get(source) ?? []) as unknown as readonly V[];
    },
  });

interface LanesVariant extends ExpertVariant {
  SUBGROUPS: boolean;
  LANES: number;
}

const lanesOf = (lanes: number) => ({ SUBGROUPS: lanes > 0, LANES: lanes || 32 });

const threadShapes = [
  { DIRECT: true, COLS: 1, ROWS: 2 },
  { DIRECT: false, COLS: 4, ROWS: 4 },
  { DIRECT: false, COLS: 8, ROWS: 4 },
] as const;

/** One row per thread: for software adapters. */
export const expertMatmul = expertKernel<LanesVariant & { WG: number }>(
  'expert_matmul.wgsl',
  ({ WG, ROWS }) => WG * ROWS,
);

const subgroupShapes = [
  { DIRECT: true, COLS: 1, ROWS: 4 },
  { DIRECT: false, COLS: 4, ROWS: 4 },
  { DIRECT: false, COLS: 8, ROWS: 4 },
] as const;

/** Several rows per workgroup, one block per lane: for GPUs, and for rows that are decoded. */
export const expertMatvec = expertKernel<LanesVariant>('expert_matvec.wgsl', ({ ROWS }) => ROWS, 'decode');

/** Tiles in workgroup memory: for GPUs and prompts. */
export const expertTile = expertKernel<ExpertVariant>('expert_tile.wgsl', ({ ROWS }) => ROWS, 'prompt');

/** A kernel for expert products, for up to `upTo` rows of the range that it computes. */
interface ExpertOption {
  readonly kernel: Kernel<Variant, ExpertParams>;
  readonly variant: ExpertVariant;
  readonly upTo: number;
}

interface ExpertCounts {
  /** Number of experts. `used`: experts of each token. */
  readonly count: number;
  readonly used: number;
}

/** Number of tokens at which an expert has `tokensPerExpert` tokens on average. */
const tokensForAverage = ({ count, used }: ExpertCounts, tokensPerExpert: number): number =>
  Math.max(1, Math.floor((tokensPerExpert * count) / used));

/**
 * Maximum number of tokens for computing pairs separately. On a GPU, reading a row twice is expensive. On a software
 * adapter, a half-full tile of four pairs takes about as long as a single pair (measured).
 */
export const maxDirectTokens = (family: Pick<MatmulFamily, 'name'>, experts: ExpertCounts): number =>
  tokensForAverage(experts, family.name === 'row-a-thread' ? 1.5 : 0.25);

/**
 * Kernels for expert products, in ascending order of rows. Those of the same range of rows sum in the same order, so that
 * the result of a row does not depend on the other rows of the step.
 * @param family kernel family of the model's other products
 */
export function expertOptions(
  caps: AdapterCaps,
  family: Pick<MatmulFamily, 'name'>,
  format: string,
  experts: ExpertCounts,
): ExpertOption[] {
  const anyCount = Number.POSITIVE_INFINITY;
  const { subgroupSize: size = 0 } = caps;
  const maxDirect = maxDirectTokens(family, experts);
  // Up to here, tiles of eight pairs would be half empty, and tiles of four are faster (measured on a software
  // adapter).
  const maxNarrow = tokensForAverage(experts, 6);
  if (family.name === 'row-a-thread') {
    const common = { FORMAT: format, WG: 32, ...lanesOf(size >= 4 && size <= 32 ? size : 0) };
    const [direct, narrow, wide] = threadShapes;
    const kernel = eraseVariant(expertMatmul);
    return [
      { kernel, variant: { ...common, ...direct }, upTo: maxDirect },
      { kernel, variant: { ...common, ...narrow }, upTo: maxNarrow },
      { kernel, variant: { ...common, ...wide }, upTo: anyCount },
    ];
  }
  const common = { FORMAT: format, ...lanesOf(size >= 8 ? size : 0) };
  const [direct, narrow, wide] = subgroupShapes;
  const kernel = eraseVariant(expertMatvec);
  const tile = { FORMAT: format, DIRECT: false, COLS: 32, ROWS: 64 };
  return [
    { kernel, variant: { ...common, ...direct }, upTo: maxDirect },
    { kernel: eraseVariant(expertTile), variant: tile, upTo: anyCount },
    { kernel, variant: { ...common, ...narrow }, upTo: maxNarrow },
    { kernel, variant: { ...common, ...wide }, upTo: anyCount },
  ];
}

/** All variants that are chosen on some adapter for some format, by the source of the kernel. */
const optionsBySource = lazily(() => {
  const families: readonly MatmulFamily['name'][] = ['row-a-thread', 'row-a-subgroup'];
  const options = adapterCaps().flatMap((caps) =>
    families.flatMap((name) =>
      // The numbers of experts limit for how many rows an option is used, not the options.
      formatNames.flatMap((format) => expertOptions(caps, { name }, format, { count: 8, used: 2 })),
    ),
  );
  const bySource = Map.groupBy(options, ({ kernel }) => kernel.source);
  return new Map(
    [...bySource].map(([source, list]) => [source, distinctVariants(list.map(({ variant }) => variant))]),
  );
});

/** hidden[t] += weighted sum of the outputs of its experts; see `wgsl/expert_sum.wgsl`. */
export const expertSum = defineKernel({
  op: 'expert_sum',
  source: 'expert_sum.wgsl',
  bindings: () => [
    ['x', 'read'],
    ['routes', 'read'],
    ['hidden', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['quads', 'u32'],
    ['used', 'u32'],
  ],
  grid: (variant: { WG: number }, params: { quads: number } & Record<string, number>, dims) => [
    ceilDiv(params.quads, variant.WG),
    dims.tokens,
    1,
  ],
  variants: [{ WG: 64 }],
});
