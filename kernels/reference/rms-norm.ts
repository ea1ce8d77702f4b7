import { assertLength, type Values } from './vectors.ts';

/**
 * out[r,c] = x[r,c] / sqrt(mean over c of x[r,c]^2 + eps) * weight[c]
 * @param x [rows, cols]
 * @param weight [cols]
 * @returns [rows, cols]
 */
export function rmsNorm(x: Values, weight: Values, shape: { rows: number; cols: number; eps: number }) {
  const { rows, cols, eps } = shape;
  assertLength('rmsNorm x', x, rows * cols);
  assertLength('rmsNorm weight', weight, cols);
  const out = new Float64Array(rows * cols);
  for (let r = 0; r < rows; r++) {
    let squares = 0;
    for (let c = 0; c < cols; c++) squares += x[r * cols + c]! ** 2;
    const scale = 1 / Math.sqrt(squares / cols + eps);
    for (let c = 0; c < cols; c++) out[r * cols + c] = x[r * cols + c]! * scale * weight[c]!;
  }
  return out;
}
