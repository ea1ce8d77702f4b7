import { buildDecoder } from './decoder.ts';
import { readExpertShape, readShareMode } from './experts.ts';
import { readListedWindows } from './metadata.ts';
import type { Architecture } from './registry.ts';
import { readRope } from './rope.ts';

/** Qwen 3 with experts: like the dense model except for the feed-forward, which may be dense in some layers. */
export const qwen3moe: Architecture = {
  async build(file) {
    const window = readListedWindows(file);
    const ropes = [await readRope(file, 'neox')];
    const experts = {
      shape: readExpertShape(file),
      shares: readShareMode(file),
      activation: 'silu',
    } as const;
    return buildDecoder(file, {
      ropes,
      qkNorm: true,
      layer: (n) => ({ rope: 0, window: window(n) }),
      experts,
    });
  },
};
