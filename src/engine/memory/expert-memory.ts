import { supportedTileSizes, maxTileCount } from '../../../kernels/route.ts';
import type { BufferPool } from '../gpu/buffers.ts';
import type { Shape } from '../graph/graph.ts';
import type { Capacity } from './memory.ts';

/** GPU buffers that record which token goes to which expert. */
export interface ExpertMemory {
  /**
   * [tokens of a step, experts of a token] pairs of (expert, share as f32 bits); then the pairs sorted by expert;
   * then tiles of (expert, first index in that order, pairs, 0), and tiles of prompts, where those are separate.
   */
  readonly routed: GPUBuffer;
  /** Word offsets in `routed` of the sorted pairs and of the tiles. */
  readonly orderAt: number;
  readonly tilesAt: number;
  readonly promptTilesAt: number;
  /** [kinds of product, experts] u32: pairs computed since the start over all layers; wraps around. */
  readonly computedPairs: GPUBuffer;
}

type StepRows = Pick<Capacity, 'stepTokens'>;

/** Products that are counted separately, in the order of `computedPairs`. */
export const expertRoles = ['gate', 'up', 'down'] as const;

function layoutOf({ count, used }: NonNullable<Shape['experts']>, { stepTokens }: StepRows) {
  const pairs = stepTokens * used;
  const orderAt = 2 * pairs;
  const tilesAt = Math.ceil((orderAt + pairs) / 4) * 4;
  const promptTilesAt =
    tilesAt + 4 * Math.max(...supportedTileSizes.map((tile) => maxTileCount(pairs, count, tile)));
  const words = promptTilesAt + 4 * maxTileCount(pairs, count, Math.max(...supportedTileSizes));
  return {
    orderAt,
    tilesAt,
    promptTilesAt,
    routedBytes: words * 4,
    computedBytes: expertRoles.length * count * 4,
  };
}

export function expertBytes({ experts }: Shape, rows: StepRows): number {
  if (!experts) return 0;
  const { routedBytes, computedBytes } = layoutOf(experts, rows);
  return routedBytes + computedBytes;
}

export function allocateExperts(
  pool: BufferPool,
  { experts }: Shape,
  rows: StepRows,
): ExpertMemory | undefined {
  if (!experts) return undefined;
  const { orderAt, tilesAt, promptTilesAt, routedBytes, computedBytes } = layoutOf(experts, rows);
  return {
    routed: pool.storage('experts.routed', routedBytes),
    orderAt,
    tilesAt,
    promptTilesAt,
    computedPairs: pool.storage('experts.computed', computedBytes),
  };
}
