import { cartesianProduct, defineKernel, type RowRange, rowsIn } from './define.ts';

/** Maximum numbers of experts and of experts per token that the kernel supports. */
export const maxExperts = 512;
export const maxUsed = 16;

/** Selects the experts of each token and their weights, see `wgsl/route.wgsl`. */
export const route = defineKernel({
  op: 'route',
  source: 'route.wgsl',
  bindings: () => [
    ['logits', 'read'],
    ['routes', 'read_write'],
    ['params', 'uniform'],
  ],
  params: [
    ['experts', 'u32'],
    ['used', 'u32'],
    ['of_all', 'u32'],
    ['scale', 'f32'],
  ],
  grid: (_: { WG: number; MOST: number; MOST_USED: number }, _params, dims) => [dims.tokens, 1, 1],
  variants: [{ WG: 64, MOST: maxExperts, MOST_USED: maxUsed }],
});

/** Supported tile sizes, in pairs. */
export const supportedTileSizes = [4, 8, 32] as const;

/** Maximum number of tiles: the last tile of each expert can be partial. */
export const maxTileCount = (pairs: number, experts: number, tile: number): number =>
  Math.floor(pairs / tile) + experts;

/** Codes of ranges of rows. */
const rangeCodes = [undefined, 'decode', 'prompt'] as const;
export const rangeCode = (range: RowRange | undefined): number => rangeCodes.indexOf(range);

/** Groups the (token, expert) pairs of a range of rows by expert into tiles, see `wgsl/route_groups.wgsl`. */
export const routeGroups = defineKernel({
  op: 'route',
  source: 'route_groups.wgsl',
  bindings: () => [
    ['routes', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['experts', 'u32'],
    ['used', 'u32'],
    ['max_direct_tokens', 'u32'],
    ['order_at', 'u32'],
    ['tiles_at', 'u32'],
    ['range', 'u32'],
  ],
  grid: (
    _: { WG: number; TILE: number },
    {
      experts,
      max_direct_tokens,
      range,
    }: { experts: number; max_direct_tokens: number; range: number } & Record<string, number>,
    dims,
  ) => [rowsIn(rangeCodes[range], dims) > max_direct_tokens ? experts : 0, 1, 1],
  variants: cartesianProduct({ WG: [64], TILE: supportedTileSizes }),
});
