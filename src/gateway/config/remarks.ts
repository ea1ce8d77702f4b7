import { isIP } from 'node:net';
import { isPrivate } from '../../addresses/ranges.ts';
import type { GatewayConfig } from './types.ts';

/** What is no fault of a configuration, but what its operator may not have meant. */
export const remarksOn = ({ providers, models }: GatewayConfig): string[] => [
  ...(models.length === 0 ? ['the catalog has no models; add [[models]]'] : []),
  ...providers
    .filter(({ apiKey }) => apiKey !== undefined)
    .flatMap(({ id, baseUrls }) =>
      baseUrls
        .filter(isOpenlySent)
        .map(
          (url) =>
            `the key of ${id} goes to ${new URL(url).host} over plain http, where whoever is between can read it; use https`,
        ),
    ),
];

/** Over http, and not to an address of one's own network. Names without a dot are of it. */
export function isOpenlySent(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol !== 'http:') return false;
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return !isPrivate(host);
  return host.includes('.') && !/\.(?:local|localhost|internal|home\.arpa|svc|cluster\.local)$/.test(host);
}
