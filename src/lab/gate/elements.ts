/** The elements of a binding as numbers, and words that no result holds by chance. */
import type { ElementType } from '../../../kernels/contracts.ts';

/** 32-bit words of a binding of `count` elements. */
export const wordsOf = (dtype: ElementType, count: number): number =>
  dtype === 'f16' ? Math.ceil(count / 2) : count;

/** The numbers that words hold, and the bits of each element, to compare exactly. */
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

/** What an output holds before a run. Of `nan` nothing finite can be made; `large` survives what skips NaN. */
export type Poison = 'nan' | 'large';

const poisons: Readonly<Record<'f32' | 'f16' | 'u32', Readonly<Record<Poison, number>>>> = {
  f32: { nan: 0x7fc0dead, large: 0x7a317a31 },
  f16: { nan: 0x7e5d7e5d, large: 0x7a317a31 },
  // Numbers that are no token and no count.
  u32: { nan: 0xdeadbeef, large: 0x7a317a31 },
};

export const poisonWord = (dtype: ElementType, poison: Poison): number =>
  poisons[dtype === 'weights' ? 'u32' : dtype][poison];

/**
 * Other contents of the same kind: about half of the words have their signs flipped, the other half with
 * `complement`. Integers stay, because they name rows, pages and tokens. Sign bits of two halves are also harmless in
 * blocks of quantised weights.
 */
export function perturbed(
  dtype: ElementType,
  words: Uint32Array,
  { seed, complement }: { seed: number; complement: boolean },
): Uint32Array<ArrayBuffer> {
  const changed = new Uint32Array(words);
  if (dtype === 'u32') return changed;
  const signs = dtype === 'f32' ? 0x80000000 : 0x80008000;
  for (let i = 0; i < changed.length; i++) {
    // Of a product's bits the highest are the mixed ones.
    const chosen = Math.imul(i ^ seed, 0x9e3779b1) < 0;
    if (chosen !== complement) changed[i] = (changed[i] as number) ^ signs;
  }
  return changed;
}
