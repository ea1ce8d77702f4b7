import type { ModelFile } from '../formats/model-file.ts';
import type { Rope } from '../graph/graph.ts';
import { buildDecoder, type DecoderTraits } from './decoder.ts';
import { readNumber, readOptionalNumber, readLayerPattern, readWindow } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** Layer count of the 27B model, whose attention scale differs. The file does not contain the scale. */
const layersOf27b = 62;

/** Gemma 3, text only. */
export const gemma3: Architecture = {
  async build(file) {
    const window = readWindow(file);
    return buildDecoder(file, await gemmaTraits(file, window));
  },
};

/**
 * Norms before and after attention and feed-forward, head norms, GELU. Five of six layers have a sliding window and
 * their own rotary embedding.
 * @param window 0 for full attention in all layers
 */
export async function gemmaTraits(file: ModelFile, window: number): Promise<DecoderTraits> {
  const isLocal = readLayerPattern(file, 'attention.sliding_window_pattern', 6);
  const globalRope = await readRope(file, 'neox');
  const localRope: Rope = {
    theta: readNumber(file, 'rope.freq_base_swa', 10000),
    rotary: globalRope.rotary,
    style: globalRope.style,
    scale: 1,
    magnitude: 1,
  };
  const width = readNumber(file, 'embedding_length');
  const is27b = readNumber(file, 'block_count') === layersOf27b;
  const scaleOf27b = (width / readNumber(file, 'attention.head_count')) ** -0.5;
  return {
    ropes: [globalRope, localRope],
    layer: (n) => (window > 0 && isLocal(n) ? { rope: 1, window } : { rope: 0, window: 0 }),
    qkNorm: true,
    activation: 'gelu_tanh',
    hasSandwichNorms: true,
    embeddingScale: Math.sqrt(width),
    attentionScale: readOptionalNumber(file, 'attention.scale') ?? (is27b ? scaleOf27b : undefined),
  };
}
