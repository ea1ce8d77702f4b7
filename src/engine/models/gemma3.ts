import type { ModelFile } from '../formats/model-file.ts';
import type { Rope } from '../graph.ts';
import { buildDecoder, type DecoderTraits } from './decoder.ts';
import { numberOf, optionalNumber, patternOf, windowOf } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** Layer count of the 27B model, whose attention scale differs. The file does not contain the scale. */
const layersOf27b = 62;

/** Gemma 3, text only. */
export const gemma3: Architecture = {
  async build(file) {
    const window = windowOf(file);
    return buildDecoder(file, await gemmaTraits(file, window));
  },
};

/**
 * Norms before and after attention and feed-forward, head norms, GELU. Five of six layers have a sliding window and
 * their own rotary embedding.
 * @param window 0 for full attention in all layers
 */
export async function gemmaTraits(file: ModelFile, window: number): Promise<DecoderTraits> {
  const isLocal = patternOf(file, 'attention.sliding_window_pattern', 6);
  const wide = await ropeOf(file, 'neox');
  const near: Rope = {
    theta: numberOf(file, 'rope.freq_base_swa', 10000),
    rotary: wide.rotary,
    style: wide.style,
    scale: 1,
    magnitude: 1,
  };
  const width = numberOf(file, 'embedding_length');
  const is27b = numberOf(file, 'block_count') === layersOf27b;
  const scaleOf27b = (width / numberOf(file, 'attention.head_count')) ** -0.5;
  return {
    ropes: [wide, near],
    layer: (n) => (window > 0 && isLocal(n) ? { rope: 1, window } : { rope: 0, window: 0 }),
    qkNorm: true,
    activation: 'gelu_tanh',
    sandwich: true,
    embeddingScale: Math.sqrt(width),
    attentionScale: optionalNumber(file, 'attention.scale') ?? (is27b ? scaleOf27b : undefined),
  };
}
