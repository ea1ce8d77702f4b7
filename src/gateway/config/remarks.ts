import { isIP } from 'node:net';
import { isPrivate } from '../../addresses/ranges.ts';
import type { Model } from '../catalog/types.ts';
import { effortsOf } from '../wires/chat/dialect.ts';
import type { GatewayConfig } from './types.ts';

/** What is no fault of a configuration, but what its operator may not have meant. */
export const remarksOn = ({ providers, models }: GatewayConfig): string[] => [
  ...models.flatMap(effortRemark),
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

/** What is assumed where a model thinks and the file does not say in which levels. */
function effortRemark(model: Model): string[] {
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
