import { buildEncoder } from './encoder.ts';
import type { Architecture } from './registry.ts';

/** BERT and what is trained from it (MiniLM, BGE, E5, GTE): learned positions, token types, GELU. */
export const bert: Architecture = {
  build: async (file) => buildEncoder(file, { gated: false }),
};
