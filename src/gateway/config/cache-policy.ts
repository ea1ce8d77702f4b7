import type { CachePolicy, HitPrice } from '../cache/types.ts';
import type { ConfigFaults } from './config-faults.ts';
import type { CachePolicyTable } from './schemas.ts';
import type { Tables } from './tables.ts';

const defaultTtlSecs = 3600;

/** How the answers of a model are cached. Its own table replaces members of [cache]. */
export function toCachePolicy(
  all: CachePolicyTable | undefined,
  own: CachePolicyTable | undefined,
): CachePolicy | undefined {
  if (!all) return undefined;
  return {
    use: own?.use ?? all.use ?? 'always',
    ttlSecs: own?.ttl_secs ?? all.ttl_secs ?? defaultTtlSecs,
    hitPrice: toHitPrice(own) ?? toHitPrice(all) ?? { nanodollars: 0n },
  };
}

function toHitPrice(table: CachePolicyTable | undefined): HitPrice | undefined {
  if (table?.hit_price_percent !== undefined) return { percent: table.hit_price_percent };
  const { hit_price_nanousd: nanodollars } = table ?? {};
  return nanodollars === undefined ? undefined : { nanodollars: BigInt(nanodollars) };
}

/** Adds a fault for settings of the cache that contradict each other or have no effect. */
export function checkCache({ cache, models }: Tables, faults: ConfigFaults): void {
  const tables = [
    ...(cache ? [{ path: ['cache'], table: cache as CachePolicyTable }] : []),
    ...models.flatMap(({ path, value }) =>
      value.cache ? [{ path: [...path, 'cache'], table: value.cache }] : [],
    ),
  ];
  for (const { path, table } of tables) {
    if (table.hit_price_nanousd !== undefined && table.hit_price_percent !== undefined)
      faults.add([...path, 'hit_price_percent'], 'hit_price_nanousd is set too; keep one of the two');
    if (!cache)
      faults.add(path, 'needs a table [cache], which also has the limits of what is stored; it may be empty');
  }
}
