/** Encoders of ggml types, bit-identical to ggml's reference quantizers. */
import { q4_0, q4_1, q5_0, q5_1, q8_0 } from './blocks-of-32.ts';
import type { Quantizer } from './encoder.ts';
import { q4K } from './q4-k.ts';

export const quantizers = {
  Q8_0: q8_0,
  Q4_0: q4_0,
  Q4_1: q4_1,
  Q5_0: q5_0,
  Q5_1: q5_1,
  Q4_K: q4K,
} as const satisfies Record<string, Quantizer>;

export type QuantizedType = keyof typeof quantizers;
