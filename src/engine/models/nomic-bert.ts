import { buildEncoder } from './encoder.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** Nomic BERT: rotary positions and a gated feed-forward. */
export const nomicBert: Architecture = {
  build: async (file) => buildEncoder(file, { rope: await readRope(file, 'neox'), gated: true }),
};
