import { columns } from '../../cli/models/columns.ts';
import { printable } from '../../terminal/printable.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { counted } from '../../words/count.ts';
import { modelBody } from '../catalog/bodies.ts';
import type { Model, Provider } from '../catalog/types.ts';
import { assumptionsOn, remarksOn } from '../config/remarks.ts';
import type { GatewayConfig } from '../config/types.ts';
import { answer, neededFile, note, type Session } from './session.ts';

/** `catalog check`: shows what a gateway with this configuration serves. Faults are its result, so they exit with 1, not 2. */
export async function checkCatalog(session: Session): Promise<void> {
  let config: GatewayConfig;
  try {
    config = await (await neededFile(session)).config();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const { faults } = error;
    answer(session, { ok: false, faults }, `${faults.map(printable).join('\n')}\n`);
    throw new StartError(`the configuration has ${counted(faults.length, 'fault')}`);
  }
  const { models, providers, aliases, fallbacks, byok, masterKeys } = config;
  const body = {
    ok: true,
    providers: providers.map((provider) => ({
      id: provider.id,
      wire: provider.wire,
      base_urls: provider.baseUrls,
      credential: credentialOf(provider),
    })),
    models: models.map((model) => ({ ...modelBody(model), pricing_identity: model.price.identity })),
    aliases: Object.fromEntries(aliases),
    fallbacks: Object.fromEntries(fallbacks),
    byok: byok.map(({ id }) => id),
    master_keys: masterKeys.map(({ id }) => id),
    remarks: [...remarksOn(config), ...assumptionsOn(config)],
  };
  answer(session, body, text(config));
  for (const remark of body.remarks) note(session, printable(remark));
}

function text({ models, providers, aliases, fallbacks, byok, masterKeys }: GatewayConfig): string {
  const headings = ['MODEL', 'PROVIDER', 'KEY', 'IN', 'OUT', 'READ', 'WRITE', 'CONTEXT', 'OUTPUT', 'CAPS'];
  const lines = [
    ...[...aliases].map(([name, to]) => `${name} is ${to}`),
    ...[...fallbacks].map(([model, to]) => `${model} falls back to ${to.join(', then ')}`),
    ...(byok.length > 0 ? [`callers may bring keys for ${byok.map(({ id }) => id).join(', ')}`] : []),
    ...(masterKeys.length > 0 ? [`master keys: ${masterKeys.map(({ id }) => id).join(', ')}`] : []),
    `${counted(models.length, 'model')} of ${counted(providers.length, 'provider')}; prices in USD per million tokens`,
  ];
  return `${columns(headings, models.map(cells))}\n${lines.map(printable).join('\n')}\n`;
}

const cells = ({ id, provider, pricing, price, contextWindow, maxOutputTokens, caps }: Model): string[] => [
  id,
  provider.id,
  credentialOf(provider),
  pricing.in_usd_per_mtok + (price.longContext ? '+' : ''),
  pricing.out_usd_per_mtok + (price.longContext ? '+' : ''),
  pricing.cache_read_usd_per_mtok,
  pricing.cache_write_usd_per_mtok,
  String(contextWindow),
  maxOutputTokens === 0 ? '-' : String(maxOutputTokens),
  [...caps].join(','),
];

/** Whether a provider has a key, never its value. */
const credentialOf = ({ access, apiKey }: Provider): 'set' | 'none' | "callers'" =>
  access === 'byok' ? "callers'" : apiKey === undefined ? 'none' : 'set';
