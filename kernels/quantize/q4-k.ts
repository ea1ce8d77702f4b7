/**
 * Q4_K encoder; see `kernels/reference/codecs/k-quants.ts` for the layout. For each sub-block of 32, finds the scale
 * and
 * minimum with the smallest weighted squared error, starting from 21 roundings. The eight pairs are then rounded to
 * 6 bits and the codes recomputed. All arithmetic is in f32 and in ggml's order of sums, so the bytes are identical.
 */
import { type Quantizer, quantizerOf } from './encoder.ts';

const { abs, fround, sqrt } = Math;

const subBlocks = 8;
const most = 15;
const steps = 20;
/** Adding it to an f32 below 2^22 rounds to an integer, half to even. */
const rounder = 12_582_912;
const nearest = (value: number): number => fround(value + rounder) - rounder;

/** Divisors of the range that are tried: 14, 14.1, ... 16. */
const levels = Float32Array.from({ length: steps + 1 }, (_, step) =>
  fround(fround(-1 + fround(fround(0.1) * step)) + most),
);

/** Buffers for the current superblock. */
interface Scratch {
  /** Error weights of the current sub-block: magnitude of the value plus the RMS of the sub-block. */
  readonly weights: Float32Array;
  readonly tried: Uint8Array;
  /** Codes of the whole superblock. */
  readonly codes: Uint8Array;
  readonly scales: Float32Array;
  /** Values to subtract, not negative. */
  readonly minima: Float32Array;
}

const code = (value: number): number => {
  const whole = nearest(value);
  return whole < 0 ? 0 : whole > most ? most : whole;
};

/** Finds the scale, minimum and codes of the sub-block at `from`. */
function fit(values: Float32Array, from: number, sub: number, scratch: Scratch): void {
  const { weights, tried, codes, scales, minima } = scratch;
  const to = 32 * sub;
  let squares = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    squares = fround(squares + fround(x * x));
  }
  const mean = fround(sqrt(fround(squares / 32)));
  let least = values[from] as number;
  let greatest = least;
  let sumW = fround(0);
  let sumX = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    if (x < least) least = x;
    if (x > greatest) greatest = x;
    const w = fround(mean + abs(x));
    weights[i] = w;
    sumW = fround(sumW + w);
    sumX = fround(sumX + fround(w * x));
  }
  if (least > 0) least = 0;
  codes.fill(0, to, to + 32);
  scales[sub] = 0;
  minima[sub] = -least;
  if (greatest === least) return;

  let inverse = fround(most / fround(greatest - least));
  let scale = fround(1 / inverse);
  let bestError = fround(0);
  for (let i = 0; i < 32; i++) {
    const x = values[from + i] as number;
    const l = code(fround(inverse * fround(x - least)));
    codes[to + i] = l;
    const off = fround(fround(fround(scale * l) + least) - x);
    bestError = fround(bestError + fround((weights[i] as number) * fround(off * off)));
  }
  for (let step = 0; step <= steps; step++) {
    inverse = fround((levels[step] as number) / fround(greatest - least));
    let sumL = fround(0);
    let sumL2 = fround(0);
    let sumXL = fround(0);
    for (let i = 0; i < 32; i++) {
      const x = values[from + i] as number;
      const l = code(fround(inverse * fround(x - least)));
      tried[i] = l;
      const wl = fround((weights[i] as number) * l);
      sumL = fround(sumL + wl);
      sumL2 = fround(sumL2 + fround(wl * l));
      sumXL = fround(sumXL + fround(wl * x));
    }
    const determinant = fround(fround(sumW * sumL2) - fround(sumL * sumL));
    if (!(determinant > 0)) continue;
    let ownScale = fround(fround(fround(sumW * sumXL) - fround(sumX * sumL)) / determinant);
    let ownLeast = fround(fround(fround(sumL2 * sumX) - fround(sumL * sumXL)) / determinant);
    if (ownLeast > 0) {
      ownLeast = 0;
      ownScale = fround(sumXL / sumL2);
    }
    let error = fround(0);
    for (let i = 0; i < 32; i++) {
      const fitted = fround(fround(ownScale * (tried[i] as number)) + ownLeast);
      const off = fround(fitted - (values[from + i] as number));
      error = fround(error + fround((weights[i] as number) * fround(off * off)));
    }
    if (error < bestError) {
      codes.set(tried, to);
      bestError = error;
      scale = ownScale;
      least = ownLeast;
    }
  }
  scales[sub] = scale;
  minima[sub] = -least;
}

/** Quantizes numbers to 6 bits with a common f16 scale, which is written to `out`. @returns that scale */
function toSixBits(numbers: Float32Array, six: Uint8Array, out: DataView, at: number): number {
  let greatest = 0;
  for (const one of numbers) if (one > greatest) greatest = one;
  const inverse = greatest > 0 ? fround(63 / greatest) : 0;
  for (let sub = 0; sub < subBlocks; sub++) {
    six[sub] = Math.min(63, nearest(fround(inverse * (numbers[sub] as number))) & 255);
  }
  out.setFloat16(at, fround(greatest / 63), true);
  return out.getFloat16(at, true);
}

/** @returns an encoder of superblocks that reuses its buffers */
function superblocks() {
  const scratch: Scratch = {
    weights: new Float32Array(32),
    tried: new Uint8Array(32),
    codes: new Uint8Array(256),
    scales: new Float32Array(subBlocks),
    minima: new Float32Array(subBlocks),
  };
  const { codes } = scratch;
  const sixScales = new Uint8Array(subBlocks);
  const sixMinima = new Uint8Array(subBlocks);
  return (values: Float32Array, first: number, out: DataView, at: number): void => {
    for (let sub = 0; sub < subBlocks; sub++) fit(values, first + 32 * sub, sub, scratch);
    const d = toSixBits(scratch.scales, sixScales, out, at);
    const dmin = toSixBits(scratch.minima, sixMinima, out, at + 2);
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
        codes[i] = code(fround(fround((values[first + i] as number) + minimum) / scale));
      }
    }
    for (let i = 0; i < 128; i++) {
      const low = 64 * (i >> 5) + (i & 31);
      out.setUint8(at + 16 + i, (codes[low] as number) | ((codes[low + 32] as number) << 4));
    }
  };
}

export const q4K: Quantizer = (values) => quantizerOf('Q4_K', 256, 144, superblocks())(values);
