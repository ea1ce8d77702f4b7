import { buildDecoder } from './decoder.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** Qwen 2 and 2.5: biases on q, k and v. */
export const qwen2: Architecture = {
  build: async (file) => buildDecoder(file, { ropes: [await ropeOf(file, 'neox')] }),
};
