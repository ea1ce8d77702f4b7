import { buildDecoder } from './decoder.ts';
import { expertsOf, sharesOf } from './experts.ts';
import { listedWindows } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { ropeOf } from './rope.ts';

/** Qwen 3 with experts: like the dense model except for the feed-forward, which may be dense in some layers. */
export const qwen3moe: Architecture = {
  async build(file) {
    const window = listedWindows(file);
    const ropes = [await ropeOf(file, 'neox')];
    const experts = { shape: expertsOf(file), shares: sharesOf(file), activation: 'silu' } as const;
    return buildDecoder(file, {
      ropes,
      qkNorm: true,
      layer: (n) => ({ rope: 0, window: window(n) }),
      experts,
    });
  },
};
