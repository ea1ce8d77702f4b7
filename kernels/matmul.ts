import { ceilDiv, combinations, defineKernel, type AdapterCaps } from './define.ts';
import { formatNames } from './formats.ts';

/** Shapes of the work: tokens a thread carries along, rows a thread, threads a workgroup. */
const shapes = [
  { COLS: 1, ROWS: 2, WG: 32 },
  { COLS: 4, ROWS: 4, WG: 32 },
  { COLS: 8, ROWS: 2, WG: 32 },
] as const;

export interface MatmulVariant extends Record<string, number | boolean | string> {
  FORMAT: string;
  SUBGROUPS: boolean;
  LANES: number;
  COLS: number;
  ROWS: number;
  WG: number;
}

/** `sampled`: rows are the sampled tokens, not all tokens of the step. */
export const matmulFlags = { bias: 1, add: 2, sampled: 4 } as const;

/** y[t, n] = sum_k W[n, k] x[t, k] (+ bias[n]) (+ y[t, n]). W is one of the weight formats, x and y are f32. */
export const matmul = defineKernel({
  op: 'matmul',
  source: 'matmul.wgsl',
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
  grid: (variant: MatmulVariant, params: { rows: number; flags: number } & Record<string, number>, dims) => [
    ceilDiv(params.rows, variant.WG * variant.ROWS),
    ceilDiv(params.flags & matmulFlags.sampled ? dims.samples : dims.tokens, variant.COLS),
    1,
  ],
  variants: combinations({
    FORMAT: formatNames,
    lanes: [4, 8, 16, 32, 0],
    shape: shapes,
  }).map(({ FORMAT, lanes, shape }) => ({
    FORMAT,
    ...shape,
    SUBGROUPS: lanes > 0,
    LANES: lanes || 32,
  })),
});

/** Tokens one pass over the weights can serve, by variant. */
export const matmulColumns: readonly number[] = shapes.map((shape) => shape.COLS);

export function chooseMatmul(caps: AdapterCaps, format: string, tokens: number): MatmulVariant {
  const shape = shapes.find((one) => tokens <= one.COLS) ?? shapes[2];
  const lanes = caps.subgroupSize !== undefined && caps.subgroupSize <= 32 ? caps.subgroupSize : 0;
  return { FORMAT: format, ...shape, SUBGROUPS: lanes > 0, LANES: lanes || 32 };
}
