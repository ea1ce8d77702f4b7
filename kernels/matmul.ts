import type { Variant } from './assemble.ts';
import { type AdapterCaps, ceilDiv, combinations, defineKernel, erased, type Kernel } from './define.ts';
import { formatNames } from './formats.ts';

/** What a product does besides, see `wgsl/lib/matmul_params.wgsl`. Norms need SUBGROUPS, and never come both. */
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
  ['gain_offset', 'u32'],
  ['half', 'u32'],
  ['parts', 'u32'],
  ['width', 'f32'],
  ['eps', 'f32'],
  // A number larger than any loop; it hides their bounds from the compiler where unrolling costs too much.
  ['many', 'u32'],
  ['scale', 'f32'],
] as const;
export type MatmulParams = Record<(typeof paramNames)[number][0], number>;

/** Lanes a workgroup, tokens and rows it carries along. */
export interface LanesVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  SUBGROUPS: boolean;
  LANES: number;
  COLS: number;
  ROWS: number;
}

/** Workgroups along one dimension of a dispatch, as every device has them. */
const mostGroups = 65_535;

/** All matmul kernels compute y[t, n] = sum_k W[n, k] x[t, k], and what the flags say; x and y are f32. */
const matmulKernel = <V extends Variant>(
  source: string,
  tile: (variant: V) => { rows: number; tokens: number },
  variants: readonly V[],
): Kernel<V, MatmulParams> =>
  defineKernel({
    op: 'matmul',
    source,
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
      const count = params.flags & matmulFlags.sampled ? dims.samples : dims.tokens;
      const groups = ceilDiv(params.rows, rows);
      // Vocabularies of a quarter of a million rows have more of matvec's groups than a dispatch may be wide; the other
      // kernels, which do not look at z, have eight times as many rows a group.
      const deep = ceilDiv(groups, mostGroups);
      return [ceilDiv(groups, deep), ceilDiv(count, tokens), deep];
    },
    variants,
  });

export interface MatmulVariant extends LanesVariant {
  /** Threads a workgroup. */
  WG: number;
  /** The flags are FLAGS, whatever the parameters say. */
  FIXED: boolean;
  FLAGS: number;
}

/** The same option for a product with these flags. */
export const withFlags = <O extends MatmulOption>(option: O, flags: number): O =>
  option.variant['FIXED'] === true ? { ...option, variant: { ...option.variant, FLAGS: flags } } : option;

const { bias, add, sampled, normIn, normOut, gated, geluTanh } = matmulFlags;
/** Flags that come together in the models we run. */
const usualFlags = [
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
const needSubgroups = normIn | normOut;

const anyFlags = { FIXED: false, FLAGS: 0 };
const matmulShapes = [
  ...usualFlags.map((FLAGS) => ({ COLS: 1, ROWS: 2, WG: 32, FIXED: true, FLAGS })),
  ...usualFlags.map((FLAGS) => ({ COLS: 1, ROWS: 4, WG: 16, FIXED: true, FLAGS })),
  { COLS: 4, ROWS: 4, WG: 32, ...anyFlags },
  { COLS: 8, ROWS: 2, WG: 32, ...anyFlags },
  { COLS: 8, ROWS: 4, WG: 32, ...anyFlags },
] as const;

const lanesOf = (lanes: number) => ({ SUBGROUPS: lanes > 0, LANES: lanes || 32 });

/** A row a thread: for software adapters, whose cores are wide and whose barriers are dear. */
export const matmul = matmulKernel<MatmulVariant>(
  'matmul.wgsl',
  ({ WG, ROWS, COLS }) => ({ rows: WG * ROWS, tokens: COLS }),
  combinations({ FORMAT: formatNames, lanes: [4, 8, 16, 32, 0], shape: matmulShapes })
    .map(({ FORMAT, lanes, shape }) => ({
      FORMAT,
      ...shape,
      WG: Math.max(shape.WG, lanes || 32),
      ...lanesOf(lanes),
    }))
    .filter(({ SUBGROUPS, FLAGS }) => SUBGROUPS || (FLAGS & needSubgroups) === 0),
);

const matvecShapes = [1, 2, 4, 8].map((COLS) => ({ COLS, ROWS: 4, FIXED: false }));

/** Rows a workgroup, a block a lane: for GPUs and few tokens. */
export const matvec = matmulKernel<LanesVariant>(
  'matvec.wgsl',
  ({ ROWS, COLS }) => ({ rows: ROWS, tokens: COLS }),
  combinations({ FORMAT: formatNames, lanes: [8, 16, 32, 64, 0], shape: matvecShapes }).map(
    ({ FORMAT, lanes, shape }) => ({ FORMAT, ...shape, ...lanesOf(lanes) }),
  ),
);

export interface TileVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  F16: boolean;
  /** Rows and tokens; a multiple of 8. */
  TILE: number;
  FIXED: boolean;
}

/** Tiles through workgroup memory: for GPUs and many tokens. */
export const matmulTile = matmulKernel<TileVariant>(
  'matmul_tile.wgsl',
  ({ TILE }) => ({ rows: TILE, tokens: TILE }),
  combinations({ FORMAT: formatNames, F16: [false, true], TILE: [32, 64], FIXED: [false] }),
);

/** Formats whose quants are whole numbers of 8 bits or less under a scale. */
const integerFormats = ['q8_0', 'q4_0'];

/** Tiles on the adapter's matrix units. */
export const matmulMatrix = matmulKernel<{ FORMAT: string; MATRIX: boolean; F16: boolean; FIXED: boolean }>(
  'matmul_matrix.wgsl',
  () => ({ rows: 64, tokens: 64 }),
  formatNames.map((FORMAT) => ({ FORMAT, MATRIX: true, F16: true, FIXED: false })),
);

/** Tiles with activations rounded to 8 bits a block, and dot products of bytes. */
export const matmulTileInt8 = matmulKernel<{ FORMAT: string; F16: boolean; FIXED: boolean }>(
  'matmul_tile_int8.wgsl',
  () => ({ rows: 64, tokens: 64 }),
  integerFormats.map((FORMAT) => ({ FORMAT, F16: false, FIXED: false })),
);

/** A kernel that a product may run as. */
export interface MatmulOption {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  /** Rounds activations to 8 bits: faster where dot products of bytes are, and less exact. */
  readonly int8?: boolean;
}

/** Products of up to so many tokens, and what may run them: the first unless measuring finds a better one. */
export interface MatmulClass {
  readonly upTo: number;
  /** Sums in another order: only for steps that hold nothing but prompts. */
  readonly promptOnly?: boolean;
  readonly options: readonly MatmulOption[];
}

/**
 * Kernels whose sums have one order for few tokens, so that a token's result does not depend on its neighbours,
 * and that cut the squares of a row into parts alike. A model runs on one family.
 */
export interface MatmulFamily {
  readonly name: 'row-a-thread' | 'row-a-subgroup';
  /** Rows whose squares are summed together; 0: norms cannot be joined to products. */
  readonly part: number;
  readonly classes: (format: string) => readonly MatmulClass[];
}

const everyCount = Number.POSITIVE_INFINITY;

function rowAThread(size: number): MatmulFamily {
  const lanes = lanesOf(size);
  const option = (format: string, COLS: number, ROWS: number, WG = 32): MatmulOption => ({
    kernel: erased(matmul),
    variant: { FORMAT: format, COLS, ROWS, WG, ...lanes, FIXED: COLS === 1, FLAGS: 0 },
  });
  return {
    name: 'row-a-thread',
    part: size,
    classes: (format) => [
      { upTo: 1, options: [option(format, 1, 2), option(format, 1, 4, Math.max(16, size || 32))] },
      { upTo: 4, options: [option(format, 4, 4), option(format, 8, 2)] },
      { upTo: everyCount, options: [option(format, 8, 4), option(format, 8, 2)] },
    ],
  };
}

function rowASubgroup(caps: AdapterCaps, int8: boolean): MatmulFamily {
  const { subgroupSize = 0, f16 } = caps;
  const size = subgroupSize >= 8 ? subgroupSize : 0;
  const lanes = lanesOf(size);
  const tile = (format: string, F16: boolean, TILE: number): MatmulOption => ({
    kernel: erased(matmulTile),
    variant: { FORMAT: format, F16, TILE, FIXED: false },
  });
  return {
    name: 'row-a-subgroup',
    part: size > 0 ? 4 : 0,
    classes: (format) => {
      const precisions = f16 ? [true, false] : [false];
      const tiles = [64, 32].flatMap((edge) => precisions.map((half) => tile(format, half, edge)));
      if (caps.matrix && size === 32) {
        tiles.push({
          kernel: erased(matmulMatrix),
          variant: { FORMAT: format, MATRIX: true, F16: true, FIXED: false },
        });
      }
      if (int8 && integerFormats.includes(format)) {
        tiles.push({
          kernel: erased(matmulTileInt8),
          variant: { FORMAT: format, F16: false, FIXED: false },
          int8: true,
        });
      }
      const columns = matvecShapes.map((shape) => ({
        upTo: shape.COLS,
        options: [{ kernel: erased(matvec), variant: { FORMAT: format, ...shape, ...lanes } }],
      }));
      const widest = columns.at(-1) as MatmulClass;
      return [
        ...columns,
        { upTo: everyCount, promptOnly: true, options: tiles },
        { ...widest, upTo: everyCount },
      ];
    },
  };
}

/**
 * The families that an adapter can run, the likely one first.
 * @param int8 activations may be rounded to 8 bits
 */
export function matmulFamilies(caps: AdapterCaps, int8 = false): MatmulFamily[] {
  const size = caps.subgroupSize ?? 0;
  const thread = rowAThread(size <= 32 ? size : 0);
  const subgroup = rowASubgroup(caps, int8);
  return caps.software ? [thread, subgroup] : [subgroup, thread];
}
