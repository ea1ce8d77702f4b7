import { isIP } from 'node:net';
import { isPrivate } from '../../addresses/ranges.ts';
import { usdPerMtok } from '../catalog/rate-card.ts';
import type { Model } from '../catalog/types.ts';
import { effortsOf } from '../../wires/chat/dialect.ts';
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
  ...providers.flatMap(({ id, wire, baseUrls }) =>
    baseUrls
      .filter((url) => !version.test(url))
      .map(
        (url) =>
          `the base_url of ${id}, ${url}, names no version; most providers of its wire want ${url}/${wire === 'google' ? 'v1beta' : 'v1'}`,
      ),
  ),
  ...models.flatMap(priceRemarks),
];

/** What is assumed where the file does not say it. */
export const assumptionsOn = ({ models }: GatewayConfig): string[] => models.flatMap(effortAssumed);

const version = /\/v\d+[a-z]*\d*(?:\/|$)/;

/** Caches are there to make input cheaper. */
function priceRemarks({ id, price }: Model): string[] {
  const rates = [
    { rate: price, where: '' },
    ...(price.longContext ? [{ rate: price.longContext.price, where: ' of a long context' }] : []),
  ];
  return rates
    .filter(({ rate }) => rate.cacheRead > rate.input)
    .map(
      ({ rate, where }) =>
        `input that ${id} reads from a cache costs $${usdPerMtok(rate.cacheRead)} a million tokens${where}, more than other input, $${usdPerMtok(rate.input)}; look at cache_read_usd_per_mtok`,
    );
}

/** Over http, and not to an address of one's own network. Names without a dot are of it. */
export function isOpenlySent(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol !== 'http:') return false;
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return !isPrivate(host);
  return host.includes('.') && !/\.(?:local|localhost|internal|home\.arpa|svc|cluster\.local)$/.test(host);
}

/** Remark on a reasoning model for which the file names no levels. */
function effortAssumed(model: Model): string[] {
  const { id, caps, efforts, provider } = model;
  const hasLevels = provider.wire === 'openai-chat' || provider.wire === 'openai-responses';
  if (!caps.has('reasoning') || efforts !== undefined || !hasLevels) return [];
  const assumed = effortsOf(model);
  const what =
    assumed.length > 0
      ? `its levels of reasoning_effort are assumed to be ${assumed.join(', ')}`
      : 'reasoning_effort is left out of what is sent to it, since its levels are not known';
  return [
    `${id} has the capability reasoning: ${what}; name them with efforts = [...], or efforts = [] where it takes none`,
  ];
}
