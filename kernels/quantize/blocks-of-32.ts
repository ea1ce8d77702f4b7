/**
 * Encoders of blocks of 32 with one scale. Arithmetic in f32, with the same rounding steps as ggml's reference
 * quantizer.
 */
import { createQuantizer } from './encoder.ts';

const { abs, fround, floor, trunc } = Math;

const inverseOf = (d: number): number => (d === 0 ? 0 : fround(1 / d));

/** The largest magnitude is encoded as 127. */
export const q8_0 = createQuantizer('Q8_0', 32, 34, (values, first, out, at) => {
  let maximum = 0;
  for (let i = first; i < first + 32; i++) maximum = Math.max(maximum, abs(values[i] as number));
  const d = fround(maximum / 127);
  const inverse = inverseOf(d);
  out.setFloat16(at, d, true);
  for (let i = 0; i < 32; i++) {
    const scaled = fround((values[first + i] as number) * inverse);
    // Round half away from zero.
    out.setInt8(at + 2 + i, scaled < 0 ? -floor(0.5 - scaled) : floor(scaled + 0.5));
  }
});

/** The value with the largest magnitude, with its sign. */
function largestMagnitudeValue(values: Float32Array, first: number): number {
  let largest = 0;
  for (let i = first; i < first + 32; i++) {
    if (abs(values[i] as number) > abs(largest)) largest = values[i] as number;
  }
  return largest;
}

/** The value with the largest magnitude is encoded as -8, because nibbles range from -8 to +7. */
export const q4_0 = createQuantizer('Q4_0', 32, 18, (values, first, out, at) => {
  const d = fround(largestMagnitudeValue(values, first) / -8);
  const inverse = inverseOf(d);
  out.setFloat16(at, d, true);
  for (let i = first; i < first + 16; i++) {
    const low = fround(fround((values[i] as number) * inverse) + 8.5);
    const high = fround(fround((values[i + 16] as number) * inverse) + 8.5);
    out.setUint8(at + 2 + i - first, Math.min(15, trunc(low)) | (Math.min(15, trunc(high)) << 4));
  }
});

/** Like Q4_0, with -16 and 5 bits. */
export const q5_0 = createQuantizer('Q5_0', 32, 22, (values, first, out, at) => {
  const d = fround(largestMagnitudeValue(values, first) / -16);
  const inverse = inverseOf(d);
  out.setFloat16(at, d, true);
  const code = (value: number) => Math.min(31, trunc(fround(fround(value * inverse) + 16.5)));
  writeFiveBits(values, first, out, at + 2, code);
});

/** The smallest value is encoded as 0, the largest as `maxCode`. */
function quantizationRange(
  values: Float32Array,
  first: number,
  maxCode: number,
): { d: number; minimum: number } {
  let minimum = Infinity;
  let maximum = -Infinity;
  for (let i = first; i < first + 32; i++) {
    minimum = Math.min(minimum, values[i] as number);
    maximum = Math.max(maximum, values[i] as number);
  }
  return { d: fround(fround(maximum - minimum) / maxCode), minimum };
}

export const q4_1 = createQuantizer('Q4_1', 32, 20, (values, first, out, at) => {
  const { d, minimum } = quantizationRange(values, first, 15);
  const inverse = inverseOf(d);
  out.setFloat16(at, d, true);
  out.setFloat16(at + 2, minimum, true);
  const code = (value: number) =>
    Math.min(15, trunc(fround(fround(fround(value - minimum) * inverse) + 0.5)));
  for (let i = 0; i < 16; i++) {
    const low = code(values[first + i] as number);
    out.setUint8(at + 4 + i, low | (code(values[first + 16 + i] as number) << 4));
  }
});

export const q5_1 = createQuantizer('Q5_1', 32, 24, (values, first, out, at) => {
  const { d, minimum } = quantizationRange(values, first, 31);
  const inverse = inverseOf(d);
  out.setFloat16(at, d, true);
  out.setFloat16(at + 2, minimum, true);
  const code = (value: number) =>
    Math.min(31, trunc(fround(fround(fround(value - minimum) * inverse) + 0.5)));
  writeFiveBits(values, first, out, at + 4, code);
});

/** Writes a word of high bits, then nibbles. */
function writeFiveBits(
  values: Float32Array,
  first: number,
  out: DataView,
  at: number,
  code: (value: number) => number,
): void {
  let highBits = 0;
  for (let i = 0; i < 16; i++) {
    const low = code(values[first + i] as number);
    const high = code(values[first + 16 + i] as number);
    highBits |= ((low >> 4) << i) | ((high >> 4) << (i + 16));
    out.setUint8(at + 4 + i, (low & 15) | ((high & 15) << 4));
  }
  out.setUint32(at, highBits >>> 0, true);
}
