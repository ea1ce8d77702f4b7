import { ceilDiv, cartesianProduct, defineKernel } from './define.ts';

/** Tokens in a page of the KV cache. */
export const pageTokens = 32;

/** Flag in the last word of a token record: the token has a tile of its own. */
export const singleTileFlag = 1;

/**
 * Applies rope to q and k. Writes k and v to the cache as f16; without `writes`, only q is rotated. PROMPT skips tokens
 * of single-token tiles.
 */
export const ropeKvWrite = defineKernel({
  op: 'rope_kv_write',
  source: 'rope_kv_write.wgsl',
  bindings: () => [
    ['qkv', 'read_write'],
    ['table', 'read'],
    ['token', 'read'],
    ['page_table', 'read'],
    ['k_cache', 'read_write'],
    ['v_cache', 'read_write'],
    ['params', 'uniform'],
    ['step', 'uniform'],
  ],
  params: [
    ['heads', 'u32'],
    ['kv_heads', 'u32'],
    ['head_dim', 'u32'],
    ['rotary', 'u32'],
    ['max_pages', 'u32'],
    ['writes', 'u32'],
  ],
  grid: (
    variant: { NEOX: boolean; WG: number; PAGE: number; PROMPT: boolean },
    params: { heads: number; kv_heads: number; head_dim: number; writes: number } & Record<string, number>,
    dims,
  ) => [
    ceilDiv(((params.heads + (params.writes && 2 * params.kv_heads)) * params.head_dim) / 4, variant.WG),
    variant.PROMPT && dims.wideTiles === 0 ? 0 : dims.tokens,
    1,
  ],
  variants: cartesianProduct({ NEOX: [false, true], WG: [64], PAGE: [pageTokens], PROMPT: [false, true] }),
});
