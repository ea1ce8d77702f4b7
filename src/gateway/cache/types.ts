/** Which requests to a model use the cache: all, those that ask for it, or none. */
export const cacheUses = ['always', 'on_request', 'never'] as const;

/** What a request that is answered from the cache costs. */
export type HitPrice =
  | { readonly nanodollars: bigint }
  /** A share of what the stored answer cost, from 0 to 100. */
  | { readonly percent: number };

/** How the answers of one model are cached. */
export interface CachePolicy {
  readonly use: (typeof cacheUses)[number];
  readonly ttlSecs: number;
  readonly hitPrice: HitPrice;
}

/** Limits of what all models store, in all gateways of a database together. */
export interface CacheBounds {
  readonly maxEntries: number;
  readonly maxBytes: number;
}
