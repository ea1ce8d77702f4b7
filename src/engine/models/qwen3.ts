import { buildDecoder } from './decoder.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** Qwen 3, dense: RMS norm of every head of q and k, no biases. */
export const qwen3: Architecture = {
  build: async (file) => buildDecoder(file, { ropes: [await ropeOf(file, 'neox')], qkNorm: true }),
};
