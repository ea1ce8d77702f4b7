import type { Variant } from './assemble.ts';
import { type AdapterCaps, ceilDiv, combinations, defineKernel, erased, type Kernel } from './define.ts';
import { formatNames } from './formats.ts';
import type { MatmulFamily } from './matmul.ts';
import { tilesOf } from './route.ts';

/** What a product with experts does besides, see `wgsl/lib/expert_params.wgsl`. */
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
  ['many', 'u32'],
  // Of the model, whatever part of them these weights hold.
  ['all_experts', 'u32'],
] as const;
export type ExpertParams = Record<(typeof paramNames)[number][0], number>;

export interface ExpertVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  /** Every pair of a token and an expert is computed by itself, as `route` wrote it. */
  DIRECT: boolean;
  /** Pairs of a tile. */
  COLS: number;
  /** Rows of an expert that a thread, or a workgroup, carries along. */
  ROWS: number;
}

/** All of them compute y[pair, n] = sum_k W[expert of pair, n, k] x[row of pair, k], and what the flags say. */
const expertKernel = <V extends ExpertVariant>(
  source: string,
  rowsOf: (variant: V) => number,
  variants: readonly V[],
): Kernel<V, ExpertParams> =>
  defineKernel({
    op: 'expert_matmul',
    source,
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
    grid: (variant, { rows, used, all_experts: experts }, { tokens }) => {
      const pairs = tokens * used;
      const tiles = variant.DIRECT ? pairs : tilesOf(pairs, experts, variant.COLS);
      return [ceilDiv(rows, rowsOf(variant)), tokens > 0 ? tiles : 0, 1];
    },
    variants,
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

/** A row a thread: for software adapters. */
export const expertMatmul = expertKernel<LanesVariant & { WG: number }>(
  'expert_matmul.wgsl',
  ({ WG, ROWS }) => WG * ROWS,
  combinations({ FORMAT: formatNames, lanes: [4, 8, 16, 32, 0], shape: threadShapes }).map(
    ({ FORMAT, lanes, shape }) => ({ FORMAT, ...shape, WG: 32, ...lanesOf(lanes) }),
  ),
);

const subgroupShapes = [
  { DIRECT: true, COLS: 1, ROWS: 4 },
  { DIRECT: false, COLS: 4, ROWS: 4 },
  { DIRECT: false, COLS: 8, ROWS: 4 },
] as const;

/** Rows a workgroup, a block a lane: for GPUs and few tokens. */
export const expertMatvec = expertKernel<LanesVariant>(
  'expert_matvec.wgsl',
  ({ ROWS }) => ROWS,
  combinations({ FORMAT: formatNames, lanes: [8, 16, 32, 64, 0], shape: subgroupShapes }).map(
    ({ FORMAT, lanes, shape }) => ({ FORMAT, ...shape, ...lanesOf(lanes) }),
  ),
);

/** Tiles through workgroup memory: for GPUs and many tokens. */
export const expertTile = expertKernel<ExpertVariant & { F16: boolean }>(
  'expert_tile.wgsl',
  ({ ROWS }) => ROWS,
  combinations({ FORMAT: formatNames, F16: [false, true] }).map((one) => ({
    ...one,
    DIRECT: false,
    COLS: 32,
    ROWS: 64,
  })),
);

/** A kernel that a product with experts runs as, by the tokens of a step. */
interface ExpertOption {
  readonly kernel: Kernel<Variant, ExpertParams>;
  readonly variant: ExpertVariant;
  readonly upTo: number;
  /** Sums in another order: only for steps that hold nothing but prompts. */
  readonly promptOnly?: boolean;
}

interface Choice {
  /** Experts there are, and of a token. */
  readonly count: number;
  readonly used: number;
}

/** The most tokens of which an expert has so many on average. */
const tokensOf = ({ count, used }: Choice, each: number): number =>
  Math.max(1, Math.floor((each * count) / used));

/**
 * Steps of no more tokens are computed pair by pair. To a GPU a row is dear that is read twice; a software adapter takes a
 * pair in a tile of four, half of which are others, as long as the pair alone (measured).
 */
export const fewTokens = (family: Pick<MatmulFamily, 'name'>, experts: Choice): number =>
  tokensOf(experts, family.name === 'row-a-thread' ? 1.5 : 0.25);

/**
 * What products with experts run as; first those for few tokens. But for `promptOnly` their sums have one order, so that a
 * token's result does not depend on its neighbours.
 * @param family that the model's other products run on
 */
export function expertOptions(
  caps: AdapterCaps,
  family: Pick<MatmulFamily, 'name'>,
  format: string,
  experts: Choice,
): ExpertOption[] {
  const every = Number.POSITIVE_INFINITY;
  const { subgroupSize: size = 0 } = caps;
  const few = fewTokens(family, experts);
  // Up to here tiles of eight pairs would be half empty: those of four are faster (measured on a software adapter).
  const some = tokensOf(experts, 6);
  if (family.name === 'row-a-thread') {
    const own = { FORMAT: format, WG: 32, ...lanesOf(size >= 4 && size <= 32 ? size : 0) };
    const [direct, narrow, wide] = threadShapes;
    const kernel = erased(expertMatmul);
    return [
      { kernel, variant: { ...own, ...direct }, upTo: few },
      { kernel, variant: { ...own, ...narrow }, upTo: some },
      { kernel, variant: { ...own, ...wide }, upTo: every },
    ];
  }
  const own = { FORMAT: format, ...lanesOf(size >= 8 ? size : 0) };
  const [direct, narrow, wide] = subgroupShapes;
  const kernel = erased(expertMatvec);
  const tile = { FORMAT: format, F16: caps.f16, DIRECT: false, COLS: 32, ROWS: 64 };
  return [
    { kernel, variant: { ...own, ...direct }, upTo: few },
    { kernel: erased(expertTile), variant: tile, upTo: every, promptOnly: true },
    { kernel, variant: { ...own, ...narrow }, upTo: some },
    { kernel, variant: { ...own, ...wide }, upTo: every },
  ];
}

/** hidden[t] += the sum of what its experts give, each times its share; see `wgsl/expert_sum.wgsl`. */
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
