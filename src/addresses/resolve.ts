import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';

export interface Address {
  readonly address: string;
  readonly family: number;
}
/** Resolves a name to all its addresses. */
export type Resolve = (host: string) => Promise<readonly Address[]>;
export const systemResolve: Resolve = (host) => lookup(host, { all: true, verbatim: true });

/** Implements a `lookup` function with addresses that are already resolved. */
export function answerLookup(
  addresses: readonly Address[],
  options: Parameters<LookupFunction>[1],
  done: Parameters<LookupFunction>[2],
): void {
  const all = addresses.map(({ address, family }) => ({ address, family }));
  if (options.all) done(null, all);
  else done(null, all[0]?.address ?? '', all[0]?.family);
}
