/** Views of a binding's words as numbers, and poison values that do not occur in results by chance. */
import type { ElementType } from '../../../kernels/contracts.ts';

/** Size in 32-bit words of a binding with `count` elements. */
export const wordCountOf = (dtype: ElementType, count: number): number =>
  dtype === 'f16' ? Math.ceil(count / 2) : count;

/** Elements of a binding as numbers, and as bits for exact comparison. */
export interface Elements {
  readonly values: Float32Array | Float16Array | Uint32Array;
  readonly bits: Uint32Array | Uint16Array;
}

export function elementsOf(dtype: ElementType, words: Uint32Array<ArrayBuffer>): Elements {
  const { buffer, byteOffset, length } = words;
  if (dtype === 'f16') {
    return {
      values: new Float16Array(buffer, byteOffset, length * 2),
      bits: new Uint16Array(buffer, byteOffset, length * 2),
    };
  }
  const values = dtype === 'f32' ? new Float32Array(buffer, byteOffset, length) : words;
  return { values, bits: words };
}

/**
 * Fill value of an output before a run. `nan` makes every computed result NaN; `large` is for kernels that skip NaN.
 */
export type Poison = 'nan' | 'large';

const poisonWords: Readonly<Record<'f32' | 'f16' | 'u32', Readonly<Record<Poison, number>>>> = {
  f32: { nan: 0x7fc0dead, large: 0x7a317a31 },
  f16: { nan: 0x7e5d7e5d, large: 0x7a317a31 },
  // Not plausible as a token id or a count.
  u32: { nan: 0xdeadbeef, large: 0x7a317a31 },
};

export const poisonWord = (dtype: ElementType, poison: Poison): number =>
  poisonWords[dtype === 'weights' ? 'u32' : dtype][poison];

/**
 * Returns different contents of the same kind, by flipping the signs of about half of the words; with `complement`,
 * of the other half. Integers do not change, because they are indices of rows, pages and tokens. In quantized weight
 * blocks, flipping the sign bits of two f16 values is also harmless.
 */
export function perturbWords(
  dtype: ElementType,
  words: Uint32Array,
  { seed, complement }: { seed: number; complement: boolean },
): Uint32Array<ArrayBuffer> {
  const result = new Uint32Array(words);
  if (dtype === 'u32') return result;
  const signBits = dtype === 'f32' ? 0x80000000 : 0x80008000;
  for (let i = 0; i < result.length; i++) {
    // The highest bits of a product are the best mixed.
    const isInFirstHalf = Math.imul(i ^ seed, 0x9e3779b1) < 0;
    if (isInFirstHalf !== complement) result[i] = (result[i] as number) ^ signBits;
  }
  return result;
}
