import { buildEncoder } from './encoder.ts';
import type { Architecture } from './registry.ts';

/**
 * BERT, XLM-RoBERTa and their derivatives (MiniLM, BGE, E5, GTE): learned positions, token types, GELU. With a
 * classification head, the model ranks documents (MiniLM cross-encoders, bge-reranker).
 */
export const bert: Architecture = {
  build: (file) => buildEncoder(file, { gated: false, canRank: true }),
};
