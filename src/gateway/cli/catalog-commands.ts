import { formatTable } from '../../cli/models/format-table.ts';
import { printable } from '../../terminal/printable.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { pluralize } from '../../words/count.ts';
import { toModelBody } from '../catalog/bodies.ts';
import { type Deployment, type Model, type Provider, servedModels } from '../catalog/types.ts';
import { findAssumptions, findRemarks } from '../config/remarks.ts';
import type { GatewayConfig } from '../config/types.ts';
import { writeResult, readConfig, writeNote, type CommandContext } from './command-context.ts';

/** `catalog check`: shows what a gateway with this configuration serves. Faults are its result, so they exit with 1, not 2. */
export async function checkCatalog(context: CommandContext): Promise<void> {
  let config: GatewayConfig;
  try {
    config = await (await readConfig(context)).config();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const { faults } = error;
    writeResult(context, { ok: false, faults }, `${faults.map(printable).join('\n')}\n`);
    throw new StartError(`the configuration has ${pluralize(faults.length, 'fault')}`);
  }
  const { models, providers, aliases, fallbacks, byok, masterKeys } = config;
  const body = {
    ok: true,
    providers: providers.map((provider) => ({
      id: provider.id,
      wire: provider.wire,
      base_urls: provider.baseUrls,
      credential: keyStateOf(provider),
    })),
    models: models.map((model) => ({
      ...toModelBody(model),
      pricing_identity: model.price.identity,
      ...(model.routing
        ? {
            routing: model.routing.strategy,
            sticky: model.routing.sticky,
            deployments: model.routing.deployments.map(deploymentBody),
          }
        : {}),
    })),
    aliases: Object.fromEntries(aliases),
    fallbacks: Object.fromEntries(fallbacks),
    byok: byok.map(({ id }) => id),
    master_keys: masterKeys.map(({ id }) => id),
    remarks: [...findRemarks(config), ...findAssumptions(config)],
  };
  writeResult(context, body, catalogTable(config));
  for (const remark of body.remarks) writeNote(context, printable(remark));
}

function catalogTable({ models, providers, aliases, fallbacks, byok, masterKeys }: GatewayConfig): string {
  const headings = ['MODEL', 'PROVIDER', 'KEY', 'IN', 'OUT', 'READ', 'WRITE', 'CONTEXT', 'OUTPUT', 'CAPS'];
  const lines = [
    ...models.flatMap(routingLines),
    ...[...aliases].map(([name, to]) => `${name} is ${to}`),
    ...[...fallbacks].map(([model, to]) => `${model} falls back to ${to.join(', then ')}`),
    ...(byok.length > 0 ? [`callers may bring keys for ${byok.map(({ id }) => id).join(', ')}`] : []),
    ...(masterKeys.length > 0 ? [`master keys: ${masterKeys.map(({ id }) => id).join(', ')}`] : []),
    `${pluralize(models.length, 'model')} of ${pluralize(providers.length, 'provider')}; prices in USD per million tokens`,
  ];
  return `${formatTable(headings, models.flatMap(servedModels).map(modelCells))}\n${lines.map(printable).join('\n')}\n`;
}

const modelCells = ({
  id,
  provider,
  pricing,
  price,
  contextWindow,
  maxOutputTokens,
  caps,
}: Model): string[] => [
  id,
  provider.id,
  keyStateOf(provider),
  pricing.in_usd_per_mtok + (price.longContext ? '+' : ''),
  pricing.out_usd_per_mtok + (price.longContext ? '+' : ''),
  pricing.cache_read_usd_per_mtok,
  pricing.cache_write_usd_per_mtok,
  String(contextWindow),
  maxOutputTokens === 0 ? '-' : String(maxOutputTokens),
  [...caps].join(','),
];

const deploymentBody = ({ model, weight, priority, requestsPerMinute, concurrency }: Deployment) => ({
  provider: model.provider.id,
  upstream: model.upstream,
  weight,
  priority,
  ...(requestsPerMinute === undefined ? {} : { requests_per_minute: requestsPerMinute }),
  ...(concurrency === undefined ? {} : { concurrency }),
  pricing: model.pricing,
  pricing_identity: model.price.identity,
});

/** How the requests to a model are shared among its deployments. */
function routingLines({ id, routing }: Model): string[] {
  if (!routing) return [];
  const { strategy, sticky, deployments } = routing;
  const places = deployments.map(({ id: name, weight, priority, requestsPerMinute, concurrency }) => {
    const settings = [
      ...(strategy === 'priority' ? [`priority ${priority}`] : []),
      ...(strategy === 'least_latency' ? [] : [`weight ${weight}`]),
      ...(requestsPerMinute === undefined ? [] : [`${requestsPerMinute} requests a minute`]),
      ...(concurrency === undefined ? [] : [`${concurrency} at once`]),
    ];
    return settings.length === 0 ? name : `${name} (${settings.join(', ')})`;
  });
  return [`${id} is routed by ${strategy}${sticky ? ', sticky' : ''}: ${places.join('; ')}`];
}

/** Whether a provider has a key, never its value. */
const keyStateOf = ({ access, apiKey }: Provider): 'set' | 'none' | "callers'" =>
  access === 'byok' ? "callers'" : apiKey === undefined ? 'none' : 'set';
