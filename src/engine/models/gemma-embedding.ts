import { buildDecoder } from './decoder.ts';
import { requireEmbedding } from './embedding.ts';
import { gemmaTraits } from './gemma3.ts';
import { readWindow } from './metadata.ts';
import type { Architecture } from './registry.ts';

/** EmbeddingGemma: Gemma 3 with bidirectional attention, and two dense layers after pooling. */
export const gemmaEmbedding: Architecture = {
  async build(file) {
    requireEmbedding(file, { bidirectional: true });
    // The file's window counts both directions together.
    const both = readWindow(file);
    const traits = await gemmaTraits(file, both > 0 ? Math.floor(both / 2) + 1 : 0);
    return buildDecoder(file, { ...traits, bidirectional: true });
  },
};
