import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';

export interface Address {
  readonly address: string;
  readonly family: number;
}
/** Resolves a name to all its addresses. */
export type ResolveHost = (host: string) => Promise<readonly Address[]>;
export const systemResolve: ResolveHost = (host) => lookup(host, { all: true, verbatim: true });

/** Implements a `lookup` function with addresses that are already resolved. */
export function respondToLookup(
  addresses: readonly Address[],
  options: Parameters<LookupFunction>[1],
  callback: Parameters<LookupFunction>[2],
): void {
  const entries = addresses.map(({ address, family }) => ({ address, family }));
  if (options.all) callback(null, entries);
  else callback(null, entries[0]?.address ?? '', entries[0]?.family);
}
