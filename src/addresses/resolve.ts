import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';

export interface Address {
  readonly address: string;
  readonly family: number;
}
/** Every address of a name. */
export type Resolve = (host: string) => Promise<readonly Address[]>;
export const systemResolve: Resolve = (host) => lookup(host, { all: true, verbatim: true });

/** Hands addresses that are known already to whoever connects, in the shape that it asks for. */
export function answerLookup(
  addresses: readonly Address[],
  options: Parameters<LookupFunction>[1],
  done: Parameters<LookupFunction>[2],
): void {
  const all = addresses.map(({ address, family }) => ({ address, family }));
  if (options.all) done(null, all);
  else done(null, all[0]?.address ?? '', all[0]?.family);
}
