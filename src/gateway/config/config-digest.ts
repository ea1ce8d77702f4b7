import { hash } from 'node:crypto';
import type { GatewayConfig } from './types.ts';

/**
 * Identity of a configuration: `sha256:<hex>` over everything that it says, comments and order of keys aside. Secrets are in
 * it by their own digests, so a changed key is a changed configuration.
 */
export function digestOf(config: GatewayConfig): string {
  const { masterKeys, ...rest } = config;
  return `sha256:${hash('sha256', JSON.stringify(canonical({ ...rest, masterKeys: masterKeys.map(({ id }) => id) })))}`;
}

function canonical(value: unknown, name = ''): unknown {
  // The same key from elsewhere is the same configuration.
  if (name === 'apiKeySource') return undefined;
  if (name === 'apiKey' && typeof value === 'string') return hash('sha256', value);
  if (Buffer.isBuffer(value)) return hash('sha256', value);
  if (typeof value === 'bigint') return String(value);
  if (value instanceof Map) return canonical(Object.fromEntries(value));
  if (value instanceof Set) return [...value].map(String).sort();
  if (Array.isArray(value)) return value.map((one) => canonical(one));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, member]) => [key, canonical(member, key)]),
  );
}
