import { buildEncoder } from './encoder.ts';
import type { Architecture } from './registry.ts';

/** BERT and its derivatives (MiniLM, BGE, E5, GTE): learned positions, token types, GELU. */
export const bert: Architecture = {
  build: async (file) => buildEncoder(file, { gated: false }),
};
