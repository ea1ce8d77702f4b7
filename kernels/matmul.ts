import type { Variant } from './assemble.ts';
import { type AdapterCaps, ceilDiv, combinations, defineKernel, erased, type Kernel } from './define.ts';
import { formatNames } from './formats.ts';

/** `sampled`: rows are the sampled tokens, not all tokens of the step. */
export const matmulFlags = { bias: 1, add: 2, sampled: 4 } as const;

/** `many`: a number larger than any loop; it hides their bounds from the compiler where unrolling costs too much. */
export type MatmulParams = Record<
  'rows' | 'blocks' | 'out_stride' | 'out_offset' | 'flags' | 'bias_offset' | 'many',
  number
>;

/** Lanes a workgroup, tokens and rows it carries along. */
export interface LanesVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  SUBGROUPS: boolean;
  LANES: number;
  COLS: number;
  ROWS: number;
}

/** All matmul kernels compute y[t, n] = sum_k W[n, k] x[t, k] (+ bias[n]) (+ y[t, n]); x and y are f32. */
const matmulKernel = <V extends LanesVariant | TileVariant>(
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
      ['bias', 'read'],
      ['x', 'read'],
      ['y', 'read_write'],
      ['params', 'uniform'],
      ['step', 'uniform'],
    ],
    params: [
      ['rows', 'u32'],
      ['blocks', 'u32'],
      ['out_stride', 'u32'],
      ['out_offset', 'u32'],
      ['flags', 'u32'],
      ['bias_offset', 'u32'],
      ['many', 'u32'],
    ],
    grid: (variant, params, dims) => {
      const { rows, tokens } = tile(variant);
      const count = params.flags & matmulFlags.sampled ? dims.samples : dims.tokens;
      return [ceilDiv(params.rows, rows), ceilDiv(count, tokens), 1];
    },
    variants,
  });

export interface MatmulVariant extends LanesVariant {
  /** Threads a workgroup. */
  WG: number;
}

const matmulShapes = [
  { COLS: 1, ROWS: 2, WG: 32 },
  { COLS: 4, ROWS: 4, WG: 32 },
  { COLS: 8, ROWS: 2, WG: 32 },
] as const;

const lanesOf = (lanes: number) => ({ SUBGROUPS: lanes > 0, LANES: lanes || 32 });

/** A row a thread: for software adapters, whose cores are wide and whose barriers are dear. */
export const matmul = matmulKernel<MatmulVariant>(
  'matmul.wgsl',
  ({ WG, ROWS, COLS }) => ({ rows: WG * ROWS, tokens: COLS }),
  combinations({ FORMAT: formatNames, lanes: [4, 8, 16, 32, 0], shape: matmulShapes }).map(
    ({ FORMAT, lanes, shape }) => ({ FORMAT, ...shape, ...lanesOf(lanes) }),
  ),
);

const matvecShapes = [
  { COLS: 1, ROWS: 4 },
  { COLS: 2, ROWS: 4 },
  { COLS: 4, ROWS: 4 },
  { COLS: 8, ROWS: 2 },
] as const;

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
}

/** Tiles through workgroup memory: for GPUs and many tokens. */
export const matmulTile = matmulKernel<TileVariant>(
  'matmul_tile.wgsl',
  () => ({ rows: 64, tokens: 64 }),
  combinations({ FORMAT: formatNames, F16: [false, true] }),
);

export interface MatmulChoice {
  readonly kernel: Kernel<Variant, MatmulParams>;
  readonly variant: Variant;
  /** Rows of x that this one is for. */
  readonly upTo: number;
}

/** The kernels of one product, by how many tokens it has. */
export function chooseMatmul(caps: AdapterCaps, format: string): MatmulChoice[] {
  const size = caps.subgroupSize ?? 0;
  if (caps.software) {
    const lanes = lanesOf(size <= 32 ? size : 0);
    return matmulShapes.map((shape, index) => ({
      kernel: erased(matmul),
      variant: { FORMAT: format, ...shape, ...lanes },
      upTo: index === matmulShapes.length - 1 ? Number.POSITIVE_INFINITY : shape.COLS,
    }));
  }
  return [
    ...matvecShapes.map((shape) => ({
      kernel: erased(matvec),
      variant: { FORMAT: format, ...shape, ...lanesOf(size) },
      upTo: shape.COLS,
    })),
    {
      kernel: erased(matmulTile),
      variant: { FORMAT: format, F16: caps.f16 },
      upTo: Number.POSITIVE_INFINITY,
    },
  ];
}
