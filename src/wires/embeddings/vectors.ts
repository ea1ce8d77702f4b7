/** OpenAI's base64 of a vector: float32, little-endian, one after the other. */
export function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(vector.length * 4);
  vector.forEach((value, index) => bytes.writeFloatLE(value, index * 4));
  return bytes.toString('base64');
}

/** @throws RangeError where it is no base64 of whole float32, or one of them is no number */
export function fromBase64(text: string): number[] {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % 4 !== 0 || bytes.toString('base64').replace(/=+$/, '') !== text.replace(/=+$/, ''))
    throw new RangeError('no base64 of float32');
  return Array.from({ length: bytes.length / 4 }, (_, index) => {
    const value = bytes.readFloatLE(index * 4);
    if (!Number.isFinite(value)) throw new RangeError('no finite number');
    // Nine digits tell every float32 from its neighbours; all those of a double would be twice as long.
    return Number(value.toPrecision(9));
  });
}

export const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'number');
