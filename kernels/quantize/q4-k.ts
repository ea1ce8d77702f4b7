/**
 * Q4_K encoder; see `kernels/reference/codecs/k-quants.ts` for the layout. For each sub-block of 32, finds the scale
 * and
 * minimum with the smallest weighted squared error, starting from 21 roundings. The eight pairs are then rounded to
 * 6 bits and the codes recomputed. All arithmetic is in f32 and in ggml's order of sums, so the bytes are identical.
 */
import { type Quantizer, createQuantizer } from './encoder.ts';

const { abs, fround, sqrt } = Math;

const subBlocks = 8;
const maxCode = 15;
const stepCount = 20;
/** Adding it to an f32 below 2^22 rounds to an integer, half to even. */
const roundingConstant = 12_582_912;
const nearest = (value: number): number => fround(value + roundingConstant) - roundingConstant;

/** Divisors of the range that are tried: 14, 14.1, ... 16. */
const rangeDivisors = Float32Array.from({ length: stepCount + 1 }, (_, step) =>
  fround(fround(-1 + fround(fround(0.1) * step)) + maxCode),
);

/** Buffers for the current superblock. */
interface Scratch {
  /** Error weights of the current sub-block: magnitude of the value plus the RMS of the sub-block. */
  readonly weights: Float32Array;
  readonly candidateCodes: Uint8Array;
  /** Codes of the whole superblock. */
  readonly codes: Uint8Array;
  readonly scales: Float32Array;
  /** Values to subtract, not negative. */
  readonly minima: Float32Array;
}

const toCode = (value: number): number => {
  const rounded = nearest(value);
  return rounded < 0 ? 0 : rounded > maxCode ? maxCode : rounded;
};

/** Finds the scale, minimum and codes of the sub-block at `from`. */
function fitSubBlock(values: Float32Array, from: number, sub: number, scratch: Scratch): void {
  const { weights, candidateCodes, codes, scales, minima } = scratch;
  const to = 32 * sub;
  let squares = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    squares = fround(squares + fround(x * x));
  }
  const mean = fround(sqrt(fround(squares / 32)));
  let minimum = values[from] as number;
  let maximum = minimum;
  let sumW = fround(0);
  let sumX = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    if (x < minimum) minimum = x;
    if (x > maximum) maximum = x;
    const w = fround(mean + abs(x));
    weights[i] = w;
    sumW = fround(sumW + w);
    sumX = fround(sumX + fround(w * x));
  }
  if (minimum > 0) minimum = 0;
  codes.fill(0, to, to + 32);
  scales[sub] = 0;
  minima[sub] = -minimum;
  if (maximum === minimum) return;

  let inverse = fround(maxCode / fround(maximum - minimum));
  let scale = fround(1 / inverse);
  let bestError = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    const l = toCode(fround(inverse * fround(x - minimum)));
    codes[to + i] = l;
    const deviation = fround(fround(fround(scale * l) + minimum) - x);
    bestError = fround(bestError + fround((weights[i] as number) * fround(deviation * deviation)));
  }
  for (let step = 0; step <= stepCount; step++) {
    inverse = fround((rangeDivisors[step] as number) / fround(maximum - minimum));
    let sumL = fround(0);
    let sumL2 = fround(0);
    let sumXL = fround(0);
    for (let i = 0; i < 32; i++) {
      const x = values[from + i] as number;
      const l = toCode(fround(inverse * fround(x - minimum)));
      candidateCodes[i] = l;
      const wl = fround((weights[i] as number) * l);
      sumL = fround(sumL + wl);
      sumL2 = fround(sumL2 + fround(wl * l));
      sumXL = fround(sumXL + fround(wl * x));
    }
    const determinant = fround(fround(sumW * sumL2) - fround(sumL * sumL));
    if (!(determinant > 0)) continue;
    let candidateScale = fround(fround(fround(sumW * sumXL) - fround(sumX * sumL)) / determinant);
    let candidateMinimum = fround(fround(fround(sumL2 * sumX) - fround(sumL * sumXL)) / determinant);
    if (candidateMinimum > 0) {
      candidateMinimum = 0;
      candidateScale = fround(sumXL / sumL2);
    }
    let error = fround(0);
    for (let i = 0; i < 32; i++) {
      const fitted = fround(fround(candidateScale * (candidateCodes[i] as number)) + candidateMinimum);
      const deviation = fround(fitted - (values[from + i] as number));
      error = fround(error + fround((weights[i] as number) * fround(deviation * deviation)));
    }
    if (error < bestError) {
      codes.set(candidateCodes, to);
      bestError = error;
      scale = candidateScale;
      minimum = candidateMinimum;
    }
  }
  scales[sub] = scale;
  minima[sub] = -minimum;
}

/** Quantizes numbers to 6 bits with a common f16 scale, which is written to `out`. @returns that scale */
function quantizeToSixBits(numbers: Float32Array, six: Uint8Array, out: DataView, at: number): number {
  let maximum = 0;
  for (const one of numbers) if (one > maximum) maximum = one;
  const inverse = maximum > 0 ? fround(63 / maximum) : 0;
  for (let sub = 0; sub < subBlocks; sub++) {
    six[sub] = Math.min(63, nearest(fround(inverse * (numbers[sub] as number))) & 255);
  }
  out.setFloat16(at, fround(maximum / 63), true);
  return out.getFloat16(at, true);
}

/** @returns an encoder of superblocks that reuses its buffers */
function createSuperblockEncoder() {
  const scratch: Scratch = {
    weights: new Float32Array(32),
    candidateCodes: new Uint8Array(32),
    codes: new Uint8Array(256),
    scales: new Float32Array(subBlocks),
    minima: new Float32Array(subBlocks),
  };
  const { codes } = scratch;
  const sixScales = new Uint8Array(subBlocks);
  const sixMinima = new Uint8Array(subBlocks);
  return (values: Float32Array, first: number, out: DataView, at: number): void => {
    for (let sub = 0; sub < subBlocks; sub++) fitSubBlock(values, first + 32 * sub, sub, scratch);
    const d = quantizeToSixBits(scratch.scales, sixScales, out, at);
    const dmin = quantizeToSixBits(scratch.minima, sixMinima, out, at + 2);
    for (let sub = 0; sub < 4; sub++) {
      const scale = sixScales[sub + 4] as number;
      const minimum = sixMinima[sub + 4] as number;
      out.setUint8(at + 4 + sub, (sixScales[sub] as number) | ((scale >> 4) << 6));
      out.setUint8(at + 8 + sub, (sixMinima[sub] as number) | ((minimum >> 4) << 6));
      out.setUint8(at + 12 + sub, (scale & 15) | ((minimum & 15) << 4));
    }
    for (let sub = 0; sub < subBlocks; sub++) {
      const scale = fround(d * (sixScales[sub] as number));
      if (scale === 0) continue;
      const minimum = fround(dmin * (sixMinima[sub] as number));
      for (let i = 32 * sub; i < 32 * sub + 32; i++) {
        codes[i] = toCode(fround(fround((values[first + i] as number) + minimum) / scale));
      }
    }
    for (let i = 0; i < 128; i++) {
      const low = 64 * (i >> 5) + (i & 31);
      out.setUint8(at + 16 + i, (codes[low] as number) | ((codes[low + 32] as number) << 4));
    }
  };
}

export const q4K: Quantizer = (values) =>
  createQuantizer('Q4_K', 256, 144, createSuperblockEncoder())(values);
