/** Values of unquantised tensors. Typed arrays take them as they are: little-endian, as every machine with WebGPU. */
export type FloatType = 'F32' | 'F16' | 'BF16';

export const isFloatType = (type: string): type is FloatType =>
  type === 'F32' || type === 'F16' || type === 'BF16';

/** Every f16 as f32 bits: looking up is several times as fast as converting. Made at the first use. */
let f16Table: Uint32Array | undefined;

const tableOfF16 = (): Uint32Array => {
  if (f16Table) return f16Table;
  const halves = new Float16Array(Uint16Array.from({ length: 1 << 16 }, (_, bits) => bits).buffer);
  f16Table = new Uint32Array(Float32Array.from(halves).buffer);
  return f16Table;
};

/**
 * @param bytes of any alignment
 * @param into as many values as there are
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
    const table = tableOfF16();
    for (let i = 0; i < bits.length; i++) bits[i] = table[halves[i]!]!;
  }
};
