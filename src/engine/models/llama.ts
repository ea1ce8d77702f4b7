import type { Architecture } from './registry.ts';
import { buildDecoder } from './decoder.ts';

/** Llama 1 to 3, Mistral, TinyLlama, SmolLM2: GGUF stores q and k permuted for interleaved RoPE pairs. */
export const llama: Architecture = {
  build: (file) => buildDecoder(file, { ropeStyle: 'interleaved', qkvBias: true, qkNorm: false }),
};
