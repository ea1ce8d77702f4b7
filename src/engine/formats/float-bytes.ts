/**
 * Element types of unquantized tensors. Typed arrays read the bytes directly: files and WebGPU hosts are little-endian.
 */
export type FloatType = 'F32' | 'F16' | 'BF16';

export const isFloatType = (type: string): type is FloatType =>
  type === 'F32' || type === 'F16' || type === 'BF16';

/** The f32 bits of every f16 value, built on first use. A lookup is several times faster than a conversion. */
let f16Table: Uint32Array | undefined;

const getF16Table = (): Uint32Array => {
  if (f16Table) return f16Table;
  const halves = new Float16Array(Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits).buffer);
  f16Table = new Uint32Array(Float32Array.from(halves).buffer);
  return f16Table;
};

/**
 * Decodes raw tensor bytes to f32.
 * @param bytes may have any alignment
 * @param into its length is the number of values to decode
 */
export const decodeFloats = (type: FloatType, bytes: Uint8Array, into: Float32Array): void => {
  if (type === 'F32') {
    new Uint8Array(into.buffer, into.byteOffset, into.byteLength).set(bytes);
    return;
  }
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  const halves = new Uint16Array(aligned.buffer, aligned.byteOffset, into.length);
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  if (type === 'BF16') {
    for (let i = 0; i < bits.length; i++) bits[i] = halves[i]! << 16;
  } else {
    const table = getF16Table();
    for (let i = 0; i < bits.length; i++) bits[i] = table[halves[i]!]!;
  }
};
