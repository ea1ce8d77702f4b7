import { buildDecoder } from './decoder.ts';
import { readListedWindows } from './metadata.ts';
import { isQwen3Reranker, readQwen3RankHead } from './rank-head.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/**
 * Qwen 3, dense: RMS norm of every head of q and k, no biases; a sliding window in the layers that the file lists.
 * Qwen3-Reranker ranks documents.
 */
export const qwen3: Architecture = {
  async build(file) {
    const window = readListedWindows(file);
    const ropes = [await readRope(file, 'neox')];
    const rankHead = isQwen3Reranker(file) ? await readQwen3RankHead(file) : undefined;
    return buildDecoder(file, {
      ropes,
      qkNorm: true,
      layer: (n) => ({ rope: 0, window: window(n) }),
      rankHead,
    });
  },
};
