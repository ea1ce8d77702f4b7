import { isIP } from 'node:net';
import { isPrivate } from '../../addresses/address-ranges.ts';
import { formatUsdPerMtok } from '../catalog/rate-card.ts';
import { type Model, servedModels } from '../catalog/types.ts';
import { providerWireOf } from '../../wires/providers.ts';
import { supportedEfforts } from '../../wires/chat/dialect.ts';
import type { GatewayConfig } from './types.ts';

/** Warnings about a configuration that is valid but may not be what the operator intended. */
export const findRemarks = ({ providers, models, hooks = [] }: GatewayConfig): string[] => [
  ...(models.length === 0 ? ['the catalog has no models; add [[models]]'] : []),
  ...providers
    .filter(({ apiKey }) => apiKey !== undefined)
    .flatMap(({ id, baseUrls }) =>
      baseUrls
        .filter(isPublicPlainHttp)
        .map(
          (url) =>
            `the key of ${id} is sent to ${new URL(url).host} over plain http, where others on the network can read it; use https`,
        ),
    ),
  ...hooks.flatMap((hook) =>
    hook.kind === 'http' && isPublicPlainHttp(hook.url)
      ? [
          `the hook ${hook.name} gets texts of requests and answers at ${new URL(hook.url).host} over plain http, where others on the network can read them; use https`,
        ]
      : [],
  ),
  ...providers.flatMap(({ id, wire, baseUrls }) =>
    baseUrls
      .filter((url) => !versionSegment.test(url))
      .map(
        (url) =>
          `the base_url of ${id}, ${url}, has no version; most providers of this wire need ${url}/${providerWireOf(wire).pathVersion}`,
      ),
  ),
  ...models.flatMap((model) => distinct(servedModels(model).flatMap(findPriceRemarks))),
  ...models.flatMap(findRoutingRemarks),
];

/** The defaults that are assumed for settings missing from the file. */
export const findAssumptions = ({ models }: GatewayConfig): string[] =>
  models.flatMap((model) => distinct(servedModels(model).flatMap(assumedEfforts)));

const distinct = (lines: readonly string[]): string[] => [...new Set(lines)];

const versionSegment = /\/v\d+[a-z]*\d*(?:\/|$)/;

/** Warns when cache reads cost more than other input. */
function findPriceRemarks({ id, price }: Model): string[] {
  const rates = [
    { rate: price, where: '' },
    ...(price.longContext ? [{ rate: price.longContext.price, where: ' of a long context' }] : []),
  ];
  return rates
    .filter(({ rate }) => rate.cacheRead > rate.input)
    .map(
      ({ rate, where }) =>
        `cached input of ${id} costs $${formatUsdPerMtok(rate.cacheRead)} per million tokens${where}, more than other input, $${formatUsdPerMtok(rate.input)}; check cache_read_usd_per_mtok`,
    );
}

/** Warns when no deployment is cheaper than another. */
function findRoutingRemarks({ id, routing }: Model): string[] {
  if (routing?.strategy !== 'least_cost' || routing.deployments.length < 2) return [];
  const identities = new Set(routing.deployments.map(({ model }) => model.price.identity));
  return identities.size > 1
    ? []
    : [
        `all deployments of ${id} have the same prices, so routing = "least_cost" is the same as "weighted"; give them prices of their own`,
      ];
}

/** Whether a URL is plain http to a public host. Host names without a dot count as private. */
export function isPublicPlainHttp(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  if (protocol !== 'http:') return false;
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return !isPrivate(host);
  return host.includes('.') && !/\.(?:local|localhost|internal|home\.arpa|svc|cluster\.local)$/.test(host);
}

/** States the effort levels that are assumed for a reasoning model without `efforts`. */
function assumedEfforts(model: Model): string[] {
  const { id, caps, efforts, provider } = model;
  const hasLevels = provider.wire === 'openai-chat' || provider.wire === 'openai-responses';
  if (!caps.has('reasoning') || efforts !== undefined || !hasLevels) return [];
  const assumed = supportedEfforts(model);
  const what =
    assumed.length > 0
      ? `its levels of reasoning_effort are assumed to be ${assumed.join(', ')}`
      : 'reasoning_effort is not sent to it, because its levels are unknown';
  return [
    `${id} has the capability reasoning: ${what}; name them with efforts = [...], or efforts = [] where it takes none`,
  ];
}
