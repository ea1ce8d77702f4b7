import { assertLength, type Values } from './vectors.ts';

/**
 * out[r,c] = (x[r,c] - mean) / sqrt(mean over c of (x[r,c] - mean)^2 + eps) * weight[c] + bias[c]
 * @param x [rows, cols]
 * @param weight and bias [cols]
 * @returns [rows, cols]
 */
export function layerNorm(
  x: Values,
  weight: Values,
  bias: Values,
  shape: { rows: number; cols: number; eps: number },
): Float64Array {
  const { rows, cols, eps } = shape;
  assertLength('layerNorm x', x, rows * cols);
  assertLength('layerNorm weight', weight, cols);
  assertLength('layerNorm bias', bias, cols);
  const out = new Float64Array(rows * cols);
  for (let r = 0; r < rows; r++) {
    const row = Float64Array.from(x.subarray(r * cols, (r + 1) * cols));
    const mean = row.reduce((sum, value) => sum + value, 0) / cols;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / cols;
    const scale = 1 / Math.sqrt(variance + eps);
    for (let c = 0; c < cols; c++) out[r * cols + c] = (row[c]! - mean) * scale * weight[c]! + bias[c]!;
  }
  return out;
}
