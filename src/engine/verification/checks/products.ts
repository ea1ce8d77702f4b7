/** Products with weight matrices: rows of the file's matrix times rows of the GPU's input. */
import { expertFlags } from '../../../../kernels/experts.ts';
import { matmulFlags } from '../../../../kernels/matmul.ts';
import { expertActivation } from '../../../../kernels/reference/experts.ts';
import { activations } from '../../../../kernels/reference/gated-activation.ts';
import type { Precision } from '../judge.ts';
import { type Check, f32Unit, fewRoundings, inverseRms, type Site, sumOfSquares } from './check.ts';

/** Columns that are rounded with a common scale. */
const blockColumns = 32;
/** Rows of a matrix that are compared in one dispatch; the embedding table has more kept rows. */
const maxRows = 160;

export function productPrecision({ source, variant }: Pick<Site, 'source' | 'variant'>): Precision {
  if (source === 'matmul_tile_int8.wgsl') return '8-bit blocks';
  if (source === 'matvec_packed.wgsl') return '16-bit blocks';
  return variant['F16'] === true ? 'f16' : 'f32';
}

interface Dot {
  readonly value: number;
  /** Expected error of the sum. */
  readonly error: number;
}

/** Sum of products of a row of the matrix and a row of the input, and the expected error at a precision. */
function dot(weights: Float32Array, x: Float32Array, precision: Precision): Dot {
  const columns = weights.length;
  let value = 0;
  let squares = 0;
  let weightSquares = 0;
  let blockSquares = 0;
  for (let first = 0; first < columns; first += blockColumns) {
    const end = Math.min(first + blockColumns, columns);
    let largest = 0;
    let ofBlock = 0;
    for (let k = first; k < end; k++) {
      const w = weights[k] as number;
      const input = x[k] as number;
      value += w * input;
      squares += (w * input) ** 2;
      ofBlock += w * w;
      largest = Math.max(largest, Math.abs(input));
    }
    weightSquares += ofBlock;
    blockSquares += largest ** 2 * ofBlock;
  }
  // Partial sums grow like the root of the number of terms, and each addition rounds one.
  const sums = f32Unit * (Math.sqrt((squares * columns) / 4) + 4 * Math.abs(value));
  const rounding = {
    f32: 0,
    // Both factors are rounded; below 2^-14 the distance of f16 numbers is constant.
    f16: 3e-4 * Math.sqrt(squares) + 2 ** -26 * Math.sqrt(weightSquares + sumOfSquares(x)),
    '16-bit blocks': Math.sqrt(blockSquares / 12) / 32_767,
    '8-bit blocks': Math.sqrt(blockSquares / 12) / 127,
  }[precision];
  return { value, error: sums + rounding };
}

/** Rows of a part that are kept, at most `maxRows` of them, always with the last one. */
function keptRows(samples: ReadonlyMap<number, unknown>, isWanted: (row: number) => boolean): number[] {
  const rows = [...samples.keys()].filter(isWanted);
  return rows.length <= maxRows ? rows : [...rows.slice(0, maxRows - 1), rows.at(-1) as number];
}

export const checkMatmul: Check = (site) => {
  const { params, rows: tokens, weights, family } = site;
  const part = weights.partOf(site.buffer('quants'));
  if (!part) return undefined;
  const has = (flag: number) => (site.param('flags') & flag) !== 0;
  const { bias, add, normIn, normOut, gated, geluTanh } = matmulFlags;
  const width = site.param('blocks') * blockColumns;
  const half = site.param('half');
  const outRows = has(gated) ? half : site.param('rows');
  const rows = keptRows(
    part.samples,
    (row) => row < outRows && (!has(gated) || part.samples.has(half + row)),
  );
  if (rows.length === 0) return undefined;
  const precision = productPrecision(site);
  const { out_stride: stride = 0, out_offset: offset = 0, parts = 0, scale = 1, eps = 0 } = params;
  const inputs = tokens.map((token) => ({
    x: site.before('x', token * width, width),
    squares: has(normIn) ? site.before('squares', token * parts, parts) : undefined,
    old: has(add) ? site.before('y', token * stride + offset, outRows) : undefined,
    y: site.after('y', token * stride + offset, outRows),
    scaled: has(normOut) ? site.after('scaled', token * stride + offset, outRows) : undefined,
    nextSquares: has(normOut) ? site.after('squares', token * parts, parts) : undefined,
  }));
  const biases = has(bias) ? site.before('vectors', site.param('bias_offset'), outRows) : undefined;
  const nextWeight = has(normOut)
    ? site.before('vectors', site.param('norm_weight_offset'), outRows)
    : undefined;
  const activation = activations[has(geluTanh) ? 'gelu_tanh' : 'silu'];
  return (report) => {
    for (const input of inputs) {
      const x = input.x.floats;
      const y = input.y.floats;
      const old = input.old?.floats;
      const inverse = input.squares
        ? inverseRms(
            input.squares.floats.reduce((sum, one) => sum + one, 0),
            site.param('width'),
            eps,
          )
        : 1;
      // A row of the file may be shorter than whole blocks; the rest is zero.
      const product = (row: number): Dot => {
        const { value, error } = dot(weights.row(part, row) as Float32Array, x, precision);
        return { value: value * inverse, error: error * inverse };
      };
      const biasOf = (row: number) => biases?.floats[row] ?? 0;
      for (const row of rows) {
        let { value, error } = product(row);
        if (has(gated)) {
          const up = product(half + row);
          const gate = value;
          error = 1.1 * error * Math.abs(up.value) + Math.abs(activation(value)) * up.error;
          value = activation(value) * up.value;
          // The exponential is less exact for large arguments.
          error += fewRoundings(value) * (1 + Math.abs(gate) / 4);
        }
        const computed = value * scale;
        const before = biasOf(row) * scale + (old?.[row] ?? 0);
        const expected = computed + before;
        report('y', {
          got: y[row] as number,
          expected,
          computed,
          error: error * Math.abs(scale) + 2 * f32Unit * (Math.abs(before) + Math.abs(expected)),
        });
        if (!input.scaled || !nextWeight || !input.nextSquares) continue;
        const normed = (y[row] as number) * (nextWeight.floats[row] as number);
        report('scaled', {
          got: input.scaled.floats[row] as number,
          expected: normed,
          error: fewRoundings(normed),
        });
        const per = family.rowsPerPartialSum;
        const first = Math.floor(row / per) * per;
        const sum = sumOfSquares(y.subarray(first, Math.min(first + per, outRows)));
        const got = input.nextSquares.floats[first / per] as number;
        report('squares', { got, expected: sum, error: fewRoundings(sum) });
      }
    }
  };
};

/** The selected experts of a token, in the order of `routes`. */
export const checkExpertMatmul: Check = (site) => {
  const { weights, rows: tokens } = site;
  const part = weights.partOf(site.buffer('quants'));
  if (!part) return undefined;
  const flags = site.param('flags');
  const has = (flag: number) => (flags & flag) !== 0;
  const [rows, used, allExperts] = [site.param('rows'), site.param('used'), site.param('all_experts')];
  const firstExpert = site.param('first_expert');
  const width = site.param('blocks') * blockColumns;
  const precision = productPrecision(site);
  const inputs = tokens.map((token) => ({
    token,
    routes: site.before('routes', 2 * token * used, 2 * used),
    x: has(expertFlags.paired)
      ? site.before('x', token * used * width, used * width)
      : site.before('x', token * width, width),
    gate: has(expertFlags.gated) ? site.before('gate', token * used * rows, used * rows) : undefined,
    y: site.after('y', token * used * rows, used * rows),
  }));
  const biases = has(expertFlags.bias) ? site.before('vectors', 0, allExperts * rows) : undefined;
  return (report) => {
    for (const { routes, x, gate, y } of inputs) {
      for (let pair = 0; pair < used; pair++) {
        const expert = routes.words[2 * pair] as number;
        const at = (expert - firstExpert) * rows;
        if (at < 0 || at >= part.rows) continue;
        const input = has(expertFlags.paired)
          ? x.floats.subarray(pair * width, (pair + 1) * width)
          : x.floats;
        for (const [row] of part.samples) {
          if (row < at || row >= at + rows) continue;
          const place = row - at;
          const product = dot(weights.row(part, row) as Float32Array, input, precision);
          const bias = biases?.floats[expert * rows + place] ?? 0;
          let expected = product.value + bias;
          let { error } = product;
          error += f32Unit * Math.abs(bias);
          if (gate) {
            const open = gate.floats[pair * rows + place] as number;
            const name = has(expertFlags.oai) ? 'swiglu_oai' : 'silu';
            const slope = expertActivation(open, 1, name) / (name === 'silu' ? 1 : 2);
            expected = expertActivation(open, expected, name);
            error = Math.abs(slope) * (error + 4 * f32Unit) + fewRoundings(expected);
          }
          report('y', { got: y.floats[pair * rows + place] as number, expected, error });
        }
      }
    }
  };
};
