/** Helpers to generate parity cases, shared by the ops. */
import type { StepDims } from '../../../kernels/define.ts';
import { blockColumns } from '../../../kernels/formats.ts';
import { pageTokens } from '../../../kernels/rope-kv-write.ts';
import type { Dims } from '../types.ts';
import type { Random } from './random.ts';

/** Kind of input of a case; the first word of its name. */
export type CaseKind = 'random' | 'ragged' | 'extreme' | 'one_row' | 'live';

/** Name of a case, for example `ragged 3x64x96 q8_0`. */
export function caseName(kind: string, dims: Dims, shape: readonly string[], format?: string): string {
  const sizes = shape.map((dim) => dims[dim]).join('x');
  return [kind, sizes, ...(format === undefined ? [] : [format])].join(' ');
}

/** Random integer from `low` to `high`, inclusive. */
export const randomBetween = (random: Random, low: number, high: number): number =>
  low + random.integerBelow(high - low + 1);

/** Classes of step sizes, between the sizes at which kernels usually change. */
const sizeClasses = [
  [2, 8],
  [9, 16],
  [17, 32],
  [33, 64],
  [65, 127],
  [128, 200],
  [201, 511],
  [512, 1024],
] as const;

/** `count` different numbers of tokens of each class of step sizes. Random, so that no kernel can know them. */
export const stepSizes = (random: Random, count = 1): number[] =>
  sizeClasses.flatMap(([low, high]) =>
    Array.from(random.permutation(high - low + 1).subarray(0, count), (offset) => low + offset),
  );

/** A step size that is no multiple of anything, nor next to one: a kernel was wrong there alone. */
export const oddStepSize = 113;

/**
 * Positions of a context of `count` tokens: the last, the edges of a page, and random ones: among the first `near`, anywhere, and
 * in the last quarter.
 */
export function contextPositions(random: Random, count: number, near: number): number[] {
  const last = count - 1;
  const page = randomBetween(random, 1, Math.max(1, Math.floor(last / pageTokens))) * pageTokens;
  return [
    last,
    page - 1,
    page,
    randomBetween(random, 0, Math.min(near, last)),
    randomBetween(random, 0, last),
    randomBetween(random, Math.floor((3 * last) / 4), last),
  ].map((position) => Math.min(position, last));
}

/**
 * `ordinary`: about 1. `large`: one in 30 elements about 1e5, the others about 1. `small`: about 1e-6, too small for
 * f16. `huge`: rows from 1e9 to 1e12, whose squares f32 can still add. `constant`: one value in a row.
 */
export type Magnitude = 'ordinary' | 'large' | 'small' | 'huge' | 'constant';

export const smallMagnitude = 1e-6;
const largeMagnitude = 1e5;
/** One in this many elements is large. */
const largeInterval = 30;

/** How a row differs from the row before it. Kernels that reuse the results of a similar row are wrong there. */
type RowRelation = 'same_signs' | 'equal' | 'multiple' | 'same_start' | 'unrelated';
const rowRelations: readonly RowRelation[] = [
  'same_signs',
  'unrelated',
  'equal',
  'same_signs',
  'multiple',
  'unrelated',
  'same_start',
  'unrelated',
];

/** Elements at the start of a row that kernels may compare instead of the whole row. */
const startColumns = 32;

/** Makes some of the rows similar to the row before them; two rows have the same signs. */
export function relateRows(random: Random, rows: readonly Float32Array[]): void {
  const first = rows.length > 2 ? random.integerBelow(rowRelations.length) : 0;
  for (const [r, row] of rows.entries()) {
    const before = rows[r - 1];
    if (!before) continue;
    // The second row has a relation in any case, so that short steps have one too.
    const relation = r === 1 ? 'same_signs' : rowRelations[(first + r) % rowRelations.length];
    const factor = (0.3 + 2 * random.uniform()) * (random.integerBelow(2) ? 1 : -1);
    for (const [c, value] of before.entries()) {
      if (relation === 'same_signs') row[c] = Math.abs(row[c] as number) * (value < 0 ? -1 : 1);
      else if (relation === 'equal' || (relation === 'same_start' && c < startColumns)) row[c] = value;
      else if (relation === 'multiple') row[c] = value * factor;
    }
  }
}

/** Rows of a matrix, as views. */
export const rowsOf = (values: Float32Array, columns: number): Float32Array[] =>
  Array.from({ length: values.length / columns }, (_, r) => values.subarray(r * columns, (r + 1) * columns));

/**
 * Random rows of a magnitude; with `spread`, each row has a different scale. Some `ordinary` rows are similar to the row before
 * them. Rows that are not `ordinary` contain -0 and a block of zeros, and the last of three or more such rows is all zeros.
 */
export function randomActivations(
  random: Random,
  rows: number,
  columns: number,
  { magnitude = 'ordinary', spread = false }: { magnitude?: Magnitude; spread?: boolean } = {},
): Float32Array<ArrayBuffer> {
  const values = random.normals(rows * columns, magnitude === 'small' ? smallMagnitude : 1);
  for (let r = 0; r < rows; r++) {
    const row = values.subarray(r * columns, (r + 1) * columns);
    if (spread) {
      const scale = 0.2 + 4 * random.uniform();
      for (let c = 0; c < columns; c++) row[c] = (row[c] as number) * scale;
    }
    if (magnitude === 'ordinary') continue;
    if (magnitude === 'constant') {
      row.fill((0.5 + random.uniform()) * (random.integerBelow(2) ? 1 : -1));
      continue;
    }
    if (magnitude === 'huge') {
      const scale = 10 ** randomBetween(random, 9, 12);
      for (let c = 0; c < columns; c++) row[c] = (row[c] as number) * scale;
      continue;
    }
    if (magnitude === 'large') {
      const count = Math.max(1, Math.round(columns / largeInterval));
      for (let i = 0; i < count; i++) {
        row[random.integerBelow(columns)] =
          largeMagnitude * (0.5 + random.uniform()) * (random.integerBelow(2) ? 1 : -1);
      }
    }
    if (columns > blockColumns) {
      const start = blockColumns * random.integerBelow(Math.floor(columns / blockColumns));
      row.fill(0, start, start + blockColumns);
    }
    row[random.integerBelow(columns)] = -0;
    if (rows > 2 && r === rows - 1) row.fill(0);
  }
  if (magnitude === 'ordinary') relateRows(random, rowsOf(values, columns));
  return values;
}

/**
 * Contents of what an op must not read: numbers so large that a trace of them shows in a result. Another kernel could leave anything there,
 * so a kernel that reads it could do on a word of the other what it does in no case.
 */
export function unreadFloats(random: Random, count: number): Float32Array<ArrayBuffer> {
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++)
    values[i] = (random.integerBelow(2) ? 1 : -1) * 1e36 * (1 + 300 * random.uniform());
  return values;
}

/** Random norm weights near 1. */
export const randomNormWeights = (random: Random, count: number): Float32Array<ArrayBuffer> =>
  random.normals(count, 0.3).map((value) => 1 + value);

/** Step dims of `tokens` rows, for the built-in kernels. */
export const stepDimsFor = (tokens: number, overrides: Partial<StepDims> = {}): StepDims => ({
  tokens,
  decodeRows: tokens === 1 ? 1 : 0,
  samples: tokens,
  singleTiles: 0,
  splitTiles: 0,
  wideTiles: 0,
  hasConsecutiveTiles: false,
  sequenceRuns: 0,
  splits: 1,
  needsLogitAdjustment: false,
  needsLogprobs: false,
  ...overrides,
});

/** Copies the rows of a strided matrix to a contiguous one. */
export function contiguousRows(
  values: Float32Array,
  rows: number,
  stride: number,
  columns: number,
  offset = 0,
): Float32Array<ArrayBuffer> {
  const out = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    const start = r * stride + offset;
    out.set(values.subarray(start, start + columns), r * columns);
  }
  return out;
}

/** Value of a required member of `params` or `dims`. */
export function requireMember(values: Readonly<Record<string, number>>, name: string): number {
  const value = values[name];
  if (value === undefined) throw new Error(`${name} is missing`);
  return value;
}

/** Contents of a required f32 binding. */
export function requireFloats(
  tensors: Readonly<Record<string, unknown>>,
  name: string,
): Float32Array<ArrayBuffer> {
  const data = tensors[name];
  if (!(data instanceof Float32Array)) throw new Error(`${name}: expected f32 contents`);
  return data as Float32Array<ArrayBuffer>;
}

/** Contents of a required binding of 32-bit words. */
export function requireWords(
  tensors: Readonly<Record<string, unknown>>,
  name: string,
): Uint32Array<ArrayBuffer> {
  const data = tensors[name];
  if (!(data instanceof Uint32Array)) throw new Error(`${name}: expected 32-bit words`);
  return data as Uint32Array<ArrayBuffer>;
}
