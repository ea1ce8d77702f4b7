import type { Values } from './vectors.ts';

/** out[i] = x[i] / 2 * (1 + erf(x[i] / sqrt 2)) */
export function gelu(x: Values): Float64Array {
  return Float64Array.from(x, (value) => 0.5 * value * (1 + erf(value / Math.SQRT2)));
}

/** Error function: Maclaurin series for small arguments, continued fraction of erfc for large ones. */
function erf(x: number): number {
  const size = Math.abs(x);
  if (size < 3) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / (size + fraction));
}
