/** Encodes a vector as OpenAI's base64: consecutive little-endian float32 values. */
export function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(vector.length * 4);
  vector.forEach((value, index) => bytes.writeFloatLE(value, index * 4));
  return bytes.toString('base64');
}

/**
 * Decodes OpenAI's base64 of a vector.
 * @throws RangeError where the text is not base64 of whole float32 values, or a value is not finite
 */
export function fromBase64(text: string): number[] {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % 4 !== 0 || bytes.toString('base64').replace(/=+$/, '') !== text.replace(/=+$/, ''))
    throw new RangeError('no base64 of float32');
  return Array.from({ length: bytes.length / 4 }, (_, index) => {
    const value = bytes.readFloatLE(index * 4);
    if (!Number.isFinite(value)) throw new RangeError('no finite number');
    // Nine digits identify a float32; all digits of the double would be twice as long.
    return Number(value.toPrecision(9));
  });
}

export const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'number');
