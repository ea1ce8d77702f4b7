import type { Architecture } from './registry.ts';
import { buildDecoder } from './decoder.ts';

/** Qwen 3, dense: RMS norm of every head of q and k, no biases. */
export const qwen3: Architecture = {
  build: (file) => buildDecoder(file, { ropeStyle: 'neox', qkvBias: false, qkNorm: true }),
};
