import { buildDecoder } from './decoder.ts';
import { readWindow } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/**
 * Llama 1 to 3, Mistral, TinyLlama, SmolLM2. GGUF stores q and k permuted for interleaved RoPE pairs. A sliding
 * window applies where the file specifies one (Mistral 0.1).
 */
export const llama: Architecture = {
  async build(file) {
    const window = readWindow(file);
    const ropes = [await readRope(file, 'interleaved')];
    return buildDecoder(file, { ropes, layer: () => ({ rope: 0, window }) });
  },
};
