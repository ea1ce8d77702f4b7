import { expectLength, type Values } from './vectors.ts';

export interface Rope {
  /** Which elements turn together: (2i, 2i+1), or (i, i + rotaryDim/2). GGUF stores llama for the first, qwen for the second. */
  style: 'interleaved' | 'neox';
  /** The frequency base, 10000 or larger. */
  theta: number;
  /** Even. Elements from here to headDim pass unchanged. */
  rotaryDim: number;
  /** Positions are divided by it (linear context extension); 1 is off. */
  linearFactor?: number;
  /** [rotaryDim / 2]: each frequency is divided by its factor (GGUF `rope_freqs.weight`). */
  freqFactors?: Values | undefined;
  /** Of cosine and sine; 1 but for YaRN and LongRoPE. */
  magnitude?: number;
}

/** Radians a position for every pair, [rotaryDim / 2]. */
export function ropeFrequencies(rope: Rope): Float64Array {
  const { theta, rotaryDim, linearFactor = 1, freqFactors } = rope;
  if (freqFactors !== undefined) expectLength('rope freqFactors', freqFactors, rotaryDim / 2);
  return Float64Array.from(
    { length: rotaryDim / 2 },
    (_, i) => theta ** ((-2 * i) / rotaryDim) / (freqFactors?.[i] ?? 1) / linearFactor,
  );
}

/**
 * Turns each pair of every head by position * frequency.
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
  expectLength('rope x', x, positions.length * heads * headDim);
  if (rotaryDim % 2 !== 0 || rotaryDim > headDim) {
    throw new RangeError(`rotaryDim ${rotaryDim} is not even or more than headDim ${headDim}`);
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
 * The frequency factors of Llama 3's context extension: short waves stay, waves longer than
 * originalContext / lowFreqFactor are stretched by `factor`, between the two a blend.
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
