/** Conversions between JavaScript numbers and the bits of 16-bit floats. Rounding is to nearest, ties to even. */

const scratch = new DataView(new ArrayBuffer(8));

function roundHalfEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  if (rest > 0.5) return below + 1;
  if (rest < 0.5) return below;
  return below % 2 === 0 ? below : below + 1;
}

/** IEEE binary16 bits of a number. From 65520 on, the result is infinity; NaN becomes a quiet NaN. */
export function f16FromNumber(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  // Subnormals are multiples of 2^-24. Rounding up to 1024 gives the smallest normal number.
  if (magnitude < 2 ** -14) return sign | roundHalfEven(magnitude * 2 ** 24);
  scratch.setFloat64(0, magnitude);
  const exponent = ((scratch.getUint16(0) >> 4) & 0x7ff) - 1023;
  const significand = roundHalfEven((magnitude / 2 ** exponent) * 1024); // 1024..2048; 2048 carries
  return sign | (((exponent + 15) << 10) + (significand - 1024));
}

/** Number from binary16 bits. */
export function numberFromF16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** bfloat16 bits of a number, rounded from float32. */
export function bf16FromNumber(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Number from bfloat16 bits. */
export function numberFromBf16(bits: number): number {
  scratch.setUint32(0, (bits << 16) >>> 0);
  return scratch.getFloat32(0);
}

/** Rounds to the nearest binary16 number. */
export function roundToF16(value: number): number {
  return numberFromF16(f16FromNumber(value));
}
