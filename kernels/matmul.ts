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

/** Flags of a product, see `wgsl/lib/matmul_params.wgsl`. The norm flags need SUBGROUPS and exclude each other. */
export const matmulFlags = {
  bias: 1,
  add: 2,
  sampled: 4,
  normIn: 8,
  normOut: 16,
  gated: 32,
  geluTanh: 64,
} as const;

const paramNames = [
  ['rows', 'u32'],
  ['blocks', 'u32'],
  ['out_stride', 'u32'],
  ['out_offset', 'u32'],
  ['flags', 'u32'],
  ['bias_offset', 'u32'],
  ['norm_weight_offset', 'u32'],
  ['half', 'u32'],
  ['parts', 'u32'],
  ['width', 'f32'],
  ['eps', 'f32'],
  // Loop limit: larger than every loop count. It hides loop bounds from the compiler, to prevent costly unrolling.
  ['loop_limit', 'u32'],
  ['scale', 'f32'],
] as const;
export type MatmulParams = Record<(typeof paramNames)[number][0], number>;

/** Parameters of a product without bias, norm or activation. `blocks`: columns / 32; `stride`: of the results, in elements. */
export const plainProductParams = (shape: {
  rows: number;
  blocks: number;
  stride?: number;
  offset?: number;
}): MatmulParams => ({
  rows: shape.rows,
  blocks: shape.blocks,
  out_stride: shape.stride ?? shape.rows,
  out_offset: shape.offset ?? 0,
  flags: 0,
  bias_offset: 0,
  norm_weight_offset: 0,
  half: 0,
  parts: 0,
  width: 1,
  eps: 0,
  loop_limit: 1024,
  scale: 1,
});

/** Lanes of a workgroup, and the tokens (COLS) and rows that it computes. */
export interface LanesVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  SUBGROUPS: boolean;
  LANES: number;
  COLS: number;
  ROWS: number;
}

/** Maximum workgroups in one dimension of a dispatch, on every device. */
const maxGroups = 65_535;

/** All matmul kernels compute y[t, n] = sum_k W[n, k] x[t, k], modified by the flags; x and y are f32. */
const matmulKernel = <V extends Variant>(
  source: string,
  tile: (variant: V) => { rows: number; tokens: number },
  range?: RowRange,
  needsLargeWorkgroupMemory?: (variant: V) => boolean,
): Kernel<V, MatmulParams> =>
  defineKernel({
    op: 'matmul',
    source,
    ...(range && { rows: range }),
    ...(needsLargeWorkgroupMemory && { needsLargeWorkgroupMemory }),
    bindings: () => [
      ['quants', 'read'],
      ['scales', 'read'],
      ['vectors', 'read'],
      ['x', 'read'],
      ['y', 'read_write'],
      ['params', 'uniform'],
      ['step', 'uniform'],
      ['squares', 'read_write'],
      ['scaled', 'read_write'],
    ],
    params: paramNames,
    grid: (variant, params, dims) => {
      const { rows, tokens } = tile(variant);
      const count = params.flags & matmulFlags.sampled ? dims.samples : rowsIn(range, dims);
      const groups = ceilDiv(params.rows, rows);
      // With a vocabulary of 256k rows, matvec has more groups than one dimension allows. The other kernels ignore z,
      // but their groups have eight times as many rows.
      const depth = ceilDiv(groups, maxGroups);
      return [ceilDiv(groups, depth), ceilDiv(count, tokens), depth];
    },
    get variants() {
      return (optionsBySource().get(source) ?? []) as unknown as readonly V[];
    },
  });

export interface MatmulVariant extends LanesVariant {
  /** Threads of a workgroup. */
  WG: number;
  /** Use the compile-time FLAGS instead of the flags in `params`. */
  FIXED: boolean;
  FLAGS: number;
}

/** The option for a product with these flags. */
export const withFlags = <O extends MatmulOption>(option: O, flags: number): O =>
  option.variant['FIXED'] === true ? { ...option, variant: { ...option.variant, FLAGS: flags } } : option;

const { bias, add, sampled, normIn, normOut, gated, geluTanh } = matmulFlags;
/** Flag combinations that occur in graphs. */
const supportedFlagSets = [
  0,
  bias,
  add,
  sampled,
  normIn,
  normIn | bias,
  normIn | gated,
  add | normOut,
  gated,
  add | bias,
  add | bias | normOut,
  gated | geluTanh,
];
const subgroupFlags = normIn | normOut;

const lanesOf = (lanes: number) => ({ SUBGROUPS: lanes > 0, LANES: lanes || 32 });

/** One row per thread: for software adapters, which have SIMD cores and slow barriers. */
export const matmul = matmulKernel<MatmulVariant>('matmul.wgsl', ({ WG, ROWS, COLS }) => ({
  rows: WG * ROWS,
  tokens: COLS,
}));

const matvecShapes = [1, 2, 4, 8].map((COLS) => ({ COLS, ROWS: 4, FIXED: false }));

/** Lanes of a workgroup's subgroups, and how they share the blocks of a row. */
export interface MatvecVariant extends LanesVariant {
  /** Subgroups of a workgroup; 1 without subgroups. */
  SUBS: number;
  /** Lanes that share a block of 32 columns: 1, 2, 4 or 8. */
  SHARE: number;
}

/** The order of sums depends on these, so they are the same for all numbers of tokens. */
const matvecLanes = (lanes: number) => ({ ...lanesOf(lanes), SUBS: lanes > 0 ? 4 : 1, SHARE: 4 });

/** Several rows per workgroup, a few lanes per block: for GPUs, and for rows that are decoded. */
export const matvec = matmulKernel<MatvecVariant>(
  'matvec.wgsl',
  ({ ROWS, COLS }) => ({ rows: ROWS, tokens: COLS }),
  'decode',
);

/** Formats whose weights are integer codes with a scale, and perhaps an offset, for each half of a block. */
const packedFormats = formatNames.filter(
  (name) => !['f32', 'f16', 'bf16', 'iq4_nl', 'iq4_xs', 'mxfp4', 'mlc_q3f16'].includes(name),
);

export interface PackedVariant extends LanesVariant {
  /** Subgroups of a workgroup, each with rows of its own. */
  SUBS: number;
  /** Blocks of columns in workgroup memory. */
  TILE_BLOCKS: number;
}

/** Blocks of columns that fit in workgroup memory. */
const packedSlots = (hasSmallMemory: boolean): number => (hasSmallMemory ? 128 : 256);

/** With fewer tokens, more blocks fit in 12 KiB of workgroup memory. Workgroups have at most 256 threads. */
const packedVariant = (FORMAT: string, lanes: number, COLS: number): PackedVariant => ({
  FORMAT,
  SUBGROUPS: true,
  LANES: lanes,
  COLS,
  ROWS: 4,
  SUBS: Math.min(8, 256 / lanes),
  TILE_BLOCKS: Math.max(lanes, 128 / COLS),
  FIXED: false,
});

/** `matvec` with columns rounded to 16 bits per block, and 8-bit dot products. */
export const matvecPacked = matmulKernel<PackedVariant>(
  'matvec_packed.wgsl',
  ({ ROWS, COLS, SUBS }) => ({ rows: ROWS * SUBS, tokens: COLS }),
  'decode',
  ({ TILE_BLOCKS, COLS }) => TILE_BLOCKS * COLS > packedSlots(true),
);

export interface TileVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  F16: boolean;
  /** Rows and tokens of a tile; a multiple of 8. */
  TILE: number;
  FIXED: boolean;
}

/** Tiles in workgroup memory: for GPUs and prompts. */
export const matmulTile = matmulKernel<TileVariant>(
  'matmul_tile.wgsl',
  ({ TILE }) => ({ rows: TILE, tokens: TILE }),
  'prompt',
);

/** Formats whose quants are integers of at most 8 bits with a scale. */
const integerFormats = ['q8_0', 'q4_0'];

export interface MatrixVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  MATRIX: boolean;
  F16: boolean;
  FIXED: boolean;
  /** Rows and tokens of a tile. */
  TILE_ROWS: number;
  TILE_TOKENS: number;
  /** Blocks of 32 columns in workgroup memory. */
  STEP: number;
}

/** Tiles of `matmulMatrix`. Large ones read less, small ones give more workgroups. */
const matrixTiles = [
  { TILE_ROWS: 128, TILE_TOKENS: 128, STEP: 1 },
  { TILE_ROWS: 64, TILE_TOKENS: 128, STEP: 1 },
  { TILE_ROWS: 64, TILE_TOKENS: 64, STEP: 2 },
];
const matrixVariant = (FORMAT: string, tile: (typeof matrixTiles)[number]): MatrixVariant => ({
  FORMAT,
  MATRIX: true,
  F16: true,
  FIXED: false,
  ...tile,
});

/** Number of rows of a prompt up to which the smallest of those tiles is the fastest. */
const fewPromptRows = 64;

/**
 * A class for few rows of prompts, when `option` is for any number: the same kernel with smaller tiles, which sums in the same
 * order. (H200, 28,672 x 4,096, 8 rows: 1.32 ms with tiles of 128 x 128, 0.83 ms with 64 x 64.)
 */
export function fewRowsClass(option: MatmulOption): (MatmulOption & { readonly upTo: number }) | undefined {
  if (option.kernel.source !== matmulMatrix.source) return undefined;
  return { ...option, variant: { ...option.variant, ...matrixTiles.at(-1) }, upTo: fewPromptRows };
}

/** Tiles that use the adapter's matrix units. */
export const matmulMatrix = matmulKernel<MatrixVariant>(
  'matmul_matrix.wgsl',
  ({ TILE_ROWS, TILE_TOKENS }) => ({ rows: TILE_ROWS, tokens: TILE_TOKENS }),
  'prompt',
  () => true,
);

/** Tiles with activations quantized to 8 bits per block, and 8-bit dot products. */
export const matmulTileInt8 = matmulKernel<{ FORMAT: string; F16: boolean; FIXED: boolean }>(
  'matmul_tile_int8.wgsl',
  () => ({ rows: 64, tokens: 64 }),
  'prompt',
);

/** A kernel variant that can compute a product. */
export interface MatmulOption {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  /** Whether activations are rounded to 8 bits: less exact, and faster on adapters with fast 8-bit dot products. */
  readonly int8?: boolean;
  /** Whether activations are rounded to 16 bits per block. */
  readonly roundsTo16Bits?: boolean;
}

/**
 * Options for products of up to `upTo` rows, of the range that their kernels compute (`rows`). The first is the default;
 * tuning may select another.
 */
export interface MatmulClass {
  readonly upTo: number;
  readonly options: readonly MatmulOption[];
}

/**
 * Kernels that sum in the same order for any number of rows of a range, so that the result of a row does not depend on
 * the other rows of the step, and that split the sum of squares of a row in the same way. A model uses one family.
 */
export interface MatmulFamily {
  readonly name: 'row-a-thread' | 'row-a-subgroup';
  /** Number of rows in each partial sum of squares; 0: norms cannot be fused with products. */
  readonly rowsPerPartialSum: number;
  readonly classes: (format: string) => readonly MatmulClass[];
}

const anyTokenCount = Number.POSITIVE_INFINITY;

function rowPerThreadFamily(size: number): MatmulFamily {
  const lanes = lanesOf(size);
  const option = (format: string, COLS: number, ROWS: number, WG = 32): MatmulOption => ({
    kernel: eraseVariant(matmul),
    variant: { FORMAT: format, COLS, ROWS, WG, ...lanes, FIXED: COLS === 1, FLAGS: 0 },
  });
  return {
    name: 'row-a-thread',
    rowsPerPartialSum: size,
    classes: (format) => [
      { upTo: 1, options: [option(format, 1, 2), option(format, 1, 4, Math.max(16, size || 32))] },
      { upTo: 4, options: [option(format, 4, 4), option(format, 8, 2)] },
      { upTo: anyTokenCount, options: [option(format, 8, 4), option(format, 8, 2)] },
    ],
  };
}

function rowPerSubgroupFamily(caps: AdapterCaps, int8: boolean): MatmulFamily {
  const { subgroupSize = 0, f16, hasSmallWorkgroupMemory = false } = caps;
  const size = subgroupSize >= 8 ? subgroupSize : 0;
  const lanes = matvecLanes(size);
  const tile = (format: string, F16: boolean, TILE: number): MatmulOption => ({
    kernel: eraseVariant(matmulTile),
    variant: { FORMAT: format, F16, TILE, FIXED: false },
  });
  return {
    name: 'row-a-subgroup',
    rowsPerPartialSum: size > 0 ? 4 : 0,
    classes: (format) => {
      const precisions = f16 ? [true, false] : [false];
      const tiles = [64, 32].flatMap((edge) => precisions.map((isHalf) => tile(format, isHalf, edge)));
      if (caps.matrix && size === 32 && !hasSmallWorkgroupMemory) {
        for (const shape of matrixTiles)
          tiles.push({ kernel: eraseVariant(matmulMatrix), variant: matrixVariant(format, shape) });
      }
      if (int8 && integerFormats.includes(format)) {
        tiles.push({
          kernel: eraseVariant(matmulTileInt8),
          variant: { FORMAT: format, F16: false, FIXED: false },
          int8: true,
        });
      }
      const packedColumns = (columns: number) =>
        Math.min(columns, packedSlots(hasSmallWorkgroupMemory) / size);
      const isPacked = size > 0 && packedFormats.some((name) => name === format);
      const columns = matvecShapes.map((shape) => ({
        upTo: shape.COLS,
        options: [
          ...(isPacked
            ? [
                {
                  kernel: eraseVariant(matvecPacked),
                  variant: packedVariant(format, size, packedColumns(shape.COLS)),
                  roundsTo16Bits: true,
                },
              ]
            : []),
          { kernel: eraseVariant(matvec), variant: { FORMAT: format, ...shape, ...lanes } },
        ],
      }));
      const widestClass = columns.at(-1) as MatmulClass;
      return [...columns, { upTo: anyTokenCount, options: tiles }, { ...widestClass, upTo: anyTokenCount }];
    },
  };
}

/**
 * Kernel families that the adapter supports, the preferred one first.
 * @param int8 whether activations may be rounded to 8 bits
 */
export function matmulFamilies(caps: AdapterCaps, int8 = false): MatmulFamily[] {
  const size = caps.subgroupSize ?? 0;
  const thread = rowPerThreadFamily(size <= 32 ? size : 0);
  const subgroup = rowPerSubgroupFamily(caps, int8);
  return caps.software ? [thread, subgroup] : [subgroup, thread];
}

/** With fixed flags: a variant for each combination. Norms are fused through subgroup operations. */
const withEveryFlagSet = (option: MatmulOption): Variant[] =>
  option.variant['FIXED'] === true
    ? supportedFlagSets
        .filter((flags) => option.variant['SUBGROUPS'] === true || (flags & subgroupFlags) === 0)
        .map((flags) => withFlags(option, flags).variant)
    : [option.variant];

/** All variants that a family chooses on some adapter for some format, by the source of the kernel. */
const optionsBySource = lazily(() => {
  const options = adapterCaps()
    .flatMap((caps) => matmulFamilies(caps, true))
    .flatMap(({ classes }) => formatNames.flatMap(classes))
    .flatMap((one) => one.options);
  const bySource = Map.groupBy(options, ({ kernel }) => kernel.source);
  return new Map(
    [...bySource].map(([source, list]) => [source, distinctVariants(list.flatMap(withEveryFlagSet))]),
  );
});
