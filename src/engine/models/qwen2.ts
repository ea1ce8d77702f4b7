import type { Architecture } from './registry.ts';
import { buildDecoder } from './decoder.ts';

/** Qwen 2 and 2.5: biases on q, k and v. */
export const qwen2: Architecture = {
  build: (file) => buildDecoder(file, { ropeStyle: 'neox', qkvBias: true, qkNorm: false }),
};
