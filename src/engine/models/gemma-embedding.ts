import { buildDecoder } from './decoder.ts';
import { requireEmbedding } from './embedding.ts';
import { gemmaTraits } from './gemma3.ts';
import { windowOf } from './metadata.ts';
import type { Architecture } from './registry.ts';

/** EmbeddingGemma: Gemma 3 whose tokens also see what follows them, and two dense layers behind the pooling. */
export const gemmaEmbedding: Architecture = {
  async build(file) {
    requireEmbedding(file, { bidirectional: true });
    // The file's window is both sides of a token together.
    const both = windowOf(file);
    const traits = await gemmaTraits(file, both > 0 ? Math.floor(both / 2) + 1 : 0);
    return buildDecoder(file, { ...traits, bidirectional: true });
  },
};
