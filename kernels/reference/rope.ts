import { assertLength, type Values } from './vectors.ts';

export interface Rope {
  /**
   * Which elements form a pair: (2i, 2i+1), or (i, i + rotaryDim/2). In GGUF, llama uses the first, qwen the second.
   */
  style: 'interleaved' | 'neox';
  /** Frequency base, at least 10000. */
  theta: number;
  /** Number of rotated elements, even. The others are unchanged. */
  rotaryDim: number;
  /** Positions are divided by it (linear context extension). Default: 1. */
  linearFactor?: number;
  /** [rotaryDim / 2]: divisors of the frequencies (GGUF `rope_freqs.weight`). */
  freqFactors?: Values | undefined;
  /** Factor of cosine and sine for YaRN and LongRoPE. Default: 1. */
  magnitude?: number;
}

/** Radians per position for every pair: [rotaryDim / 2]. */
export function ropeFrequencies(rope: Rope): Float64Array {
  const { theta, rotaryDim, linearFactor = 1, freqFactors } = rope;
  if (freqFactors !== undefined) assertLength('rope freqFactors', freqFactors, rotaryDim / 2);
  return Float64Array.from(
    { length: rotaryDim / 2 },
    (_, i) => theta ** ((-2 * i) / rotaryDim) / (freqFactors?.[i] ?? 1) / linearFactor,
  );
}

/**
 * Rotates each pair of every head by position * frequency.
 * @param x [tokens, heads, headDim]
 * @param positions [tokens]
 * @returns [tokens, heads, headDim]
 */
export function applyRope(
  x: Values,
  positions: ArrayLike<number>,
  shape: { heads: number; headDim: number },
  rope: Rope,
): Float64Array {
  const { heads, headDim } = shape;
  const { style, rotaryDim, magnitude = 1 } = rope;
  assertLength('rope x', x, positions.length * heads * headDim);
  if (rotaryDim % 2 !== 0 || rotaryDim > headDim) {
    throw new RangeError(`rotaryDim: expected an even number up to headDim ${headDim}, got ${rotaryDim}`);
  }
  const frequencies = ropeFrequencies(rope);
  const half = rotaryDim / 2;
  const out = Float64Array.from(x);
  for (let t = 0; t < positions.length; t++) {
    for (let i = 0; i < half; i++) {
      const angle = positions[t]! * frequencies[i]!;
      const cos = Math.cos(angle) * magnitude;
      const sin = Math.sin(angle) * magnitude;
      const [one, two] = style === 'interleaved' ? [2 * i, 2 * i + 1] : [i, i + half];
      for (let h = 0; h < heads; h++) {
        const base = (t * heads + h) * headDim;
        const a = x[base + one]!;
        const b = x[base + two]!;
        out[base + one] = a * cos - b * sin;
        out[base + two] = a * sin + b * cos;
      }
    }
  }
  return out;
}

/**
 * Frequency factors of Llama 3's context extension: high frequencies are unchanged, wavelengths longer than
 * originalContext / lowFreqFactor are scaled by `factor`, and values in between are interpolated.
 * @returns [rotaryDim / 2]
 */
export function llama3FreqFactors(options: {
  theta: number;
  rotaryDim: number;
  factor: number;
  lowFreqFactor: number;
  highFreqFactor: number;
  originalContext: number;
}): Float64Array {
  const { theta, rotaryDim, factor, lowFreqFactor, highFreqFactor, originalContext } = options;
  return Float64Array.from({ length: rotaryDim / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / rotaryDim);
    const turns = originalContext / wavelength; // full turns inside the original context
    if (turns > highFreqFactor) return 1;
    if (turns < lowFreqFactor) return factor;
    const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}
