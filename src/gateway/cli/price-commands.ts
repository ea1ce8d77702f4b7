import { readFile } from 'node:fs/promises';
import { formatTable } from '../../cli/models/format-table.ts';
import { StartError } from '../../cli/start-error.ts';
import { UsageError } from '../../config/usage.ts';
import { printable } from '../../terminal/printable.ts';
import { errorMessage } from '../../util/error-message.ts';
import { summarizeList } from '../../util/summarize-list.ts';
import { pluralize } from '../../words/count.ts';
import { didYouMean } from '../../words/nearest.ts';
import { type ListedModel, readPriceList } from '../catalog/price-list.ts';
import { formatUsdPerCall, formatUsdPerMtok, priceOf, type RateCard } from '../catalog/rate-card.ts';
import { hostedTools, serviceTiers } from '../../wires/core/types.ts';
import { type Model, type Price, servedModels } from '../catalog/types.ts';
import {
  type CommandContext,
  positional,
  readConfig,
  requireFlag,
  writeNote,
  writeResult,
} from './command-context.ts';

/** `catalog import PRICES`: prints `[[models]]` of a provider from a published price list. */
export async function importCatalog(context: CommandContext): Promise<void> {
  const { flags } = context.command;
  const { models } = await readList(context);
  const provider = requireFlag(flags.provider, 'provider');
  const offered = models.filter((model) => model.provider === provider);
  if (offered.length === 0) {
    const names = [...new Set(models.map((model) => model.provider))];
    throw new UsageError([
      `--provider: the list has no provider '${provider}'${didYouMean(provider, names, (near) => `'${near}'`)}; it has ${summarizeList(names)}`,
    ]);
  }
  const ids = flags.models ?? undefined;
  const unknown = (ids ?? []).filter((id) => !offered.some((model) => model.id === id));
  if (unknown.length > 0) {
    const known = offered.map(({ id }) => id);
    throw new UsageError(
      unknown.map(
        (id) =>
          `--models: ${provider} has no model '${id}' in the list${didYouMean(id, known, (near) => `'${near}'`)}`,
      ),
    );
  }
  const chosen = offered.filter(({ id }) => ids?.includes(id) ?? true);
  const usable = chosen.filter((model) => missingOf(model).length === 0);
  for (const model of chosen.filter((one) => !usable.includes(one)))
    writeNote(
      context,
      printable(`${model.id} is left out: the list has no ${missingOf(model).join(' and no ')}`),
    );
  if (usable.length === 0) throw new StartError('no model of the list can be used');
  const as = flags.as ?? provider;
  writeResult(
    context,
    usable.map((model) => toTable(model, as)),
    usable.map((model) => toToml(toTable(model, as))).join('\n'),
  );
}

/** `catalog diff PRICES`: compares the prices and limits of the configuration with a published price list. Exits with 1 where they differ. */
export async function diffCatalog(context: CommandContext): Promise<void> {
  const { models } = await readList(context);
  const config = await (await readConfig(context)).config();
  const priced = config.models
    .flatMap((model) => servedModels(model).map((served) => ({ ...served, id: labelOf(model, served) })))
    .filter(({ provider }) => provider.wire !== 'lathe');
  const compared = priced.map((model) => ({ model, entries: entriesOf(models, model) }));
  const unlisted = compared.filter(({ entries }) => entries.length === 0).map(({ model }) => model.id);
  const ambiguous = compared.filter(({ entries }) => entries.length > 1);
  const differences = compared.flatMap(({ model, entries }) =>
    entries.length === 1 ? compare(model, entries[0] as ListedModel) : [],
  );
  for (const { model, entries } of ambiguous)
    writeNote(
      context,
      printable(
        `${model.id}: several providers of the list have ${model.upstream} (${summarizeList(entries.map((one) => one.provider))}), and none is named ${model.provider.id}`,
      ),
    );
  if (unlisted.length > 0) writeNote(context, printable(`not in the list: ${summarizeList(unlisted)}`));
  const matched = priced.length - unlisted.length - ambiguous.length;
  const text =
    differences.length === 0
      ? `${pluralize(matched, 'model')} compared, no difference\n`
      : formatTable(
          ['MODEL', 'SETTING', 'CONFIGURED', 'LISTED'],
          differences.map(({ model, setting, configured, listed }) => [model, setting, configured, listed]),
        );
  writeResult(
    context,
    { compared: matched, differences, unlisted, ambiguous: ambiguous.map(({ model }) => model.id) },
    text,
  );
  if (matched === 0 && priced.length > 0)
    throw new StartError(
      'no model could be compared: the list has none of them under the name of its provider',
    );
  if (differences.length > 0)
    throw new StartError(
      `${pluralize(new Set(differences.map(({ model }) => model)).size, 'model')} of ${matched} differ from the list`,
    );
}

/** A model's id, with the provider where it has several deployments. */
const labelOf = (model: Model, { provider }: Model): string =>
  servedModels(model).length > 1 ? `${model.id} (${provider.id})` : model.id;

async function readList(context: CommandContext): Promise<{ readonly models: readonly ListedModel[] }> {
  const path = positional(context, 0);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError([`${path}: ${errorMessage(error)}`]);
  }
  const list = readPriceList(text);
  if (typeof list === 'string') throw new UsageError([`${path}: ${list}`]);
  for (const fault of list.faults) writeNote(context, printable(`${path}: ${fault}`));
  return list;
}

const missingOf = ({ contextWindow, maxOutputTokens, caps, card }: ListedModel): string[] => [
  ...(caps.length === 0 ? ['use that the gateway has'] : []),
  ...(card ? [] : ['price']),
  ...(contextWindow === undefined ? ['context window'] : []),
  ...(caps.length > 0 && !caps.includes('embeddings') && maxOutputTokens === undefined
    ? ['output limit']
    : []),
];

/** The provider's name of a model may itself have a provider in it (`meta-llama/...`). */
function entriesOf(
  list: readonly ListedModel[],
  { upstream, provider, family }: Model,
): readonly ListedModel[] {
  const named = list.filter(({ id }) => id === upstream);
  for (const name of [provider.id, family]) {
    const exact = named.filter((one) => one.provider === name);
    if (exact.length > 0) return exact;
  }
  return named;
}

/** A `[[models]]` table. */
type ModelTable = Readonly<Record<string, unknown>>;

function toTable(model: ListedModel, provider: string): ModelTable {
  const { long_context, tiers, hosted_tools, ...rates } = model.card as RateCard;
  return {
    id: model.id,
    provider,
    family: model.provider,
    caps: model.caps,
    context_window: model.contextWindow ?? 0,
    ...(model.maxOutputTokens === undefined ? {} : { max_output_tokens: model.maxOutputTokens }),
    ...(model.embeddingDimensions === undefined ? {} : { embedding_dimensions: model.embeddingDimensions }),
    ...(model.caps.includes('embeddings') ? { in_usd_per_mtok: rates.in_usd_per_mtok } : rates),
    ...(long_context ? { long_context } : {}),
    ...(tiers ? { tiers } : {}),
    ...(hosted_tools ? { hosted_tools } : {}),
    ...(model.name === undefined ? {} : { display_name: model.name }),
  };
}

const toToml = (table: ModelTable): string =>
  `[[models]]\n${Object.entries(table)
    .map(([key, value]) => `${key} = ${toTomlValue(value)}\n`)
    .join('')}`;

// JSON's texts and numbers are TOML's, too, in what such a table has.
const toTomlValue = (value: unknown): string =>
  Array.isArray(value)
    ? `[${value.map(toTomlValue).join(', ')}]`
    : typeof value === 'object' && value !== null
      ? `{ ${Object.entries(value)
          .map(([key, one]) => `${key} = ${toTomlValue(one)}`)
          .join(', ')} }`
      : JSON.stringify(value);

interface Difference {
  readonly model: string;
  readonly setting: string;
  readonly configured: string;
  readonly listed: string;
}

function compare(model: Model, entry: ListedModel): Difference[] {
  const rows: Difference[] = [];
  const add = (
    setting: string,
    configured: string | number | undefined,
    listed: string | number | undefined,
  ) => {
    if (listed !== undefined && String(configured ?? '-') !== String(listed))
      rows.push({ model: model.id, setting, configured: String(configured ?? '-'), listed: String(listed) });
  };
  if (entry.card) {
    const listed = priceOf(entry.card).price;
    comparePrices('', model.price, listed, add);
    // A tier or a tool without a price is not used, so that nothing is charged by it.
    for (const tier of serviceTiers) {
      const [configured, other] = [model.price.tiers?.[tier], listed.tiers?.[tier]];
      if (configured && other) comparePrices(`tiers.${tier}.`, configured, other, add);
    }
    for (const tool of hostedTools) {
      const [configured, other] = [model.price, listed].map((price) => price.hostedTools?.perCall[tool]);
      if (configured !== undefined && other !== undefined)
        add(`hosted_tools.${tool}_usd_per_call`, formatUsdPerCall(configured), formatUsdPerCall(other));
    }
  }
  add('context_window', model.contextWindow, entry.contextWindow);
  add('max_output_tokens', model.maxOutputTokens || undefined, entry.maxOutputTokens);
  return rows;
}

/** @param prefix of the settings */
function comparePrices(
  prefix: string,
  configured: Price,
  listed: Price,
  add: (
    setting: string,
    configured: string | number | undefined,
    listed: string | number | undefined,
  ) => void,
): void {
  for (const [setting, price] of Object.entries(pricesOf(listed)))
    add(`${prefix}${setting}`, pricesOf(configured)[setting], price);
  for (const [setting, { own, usual }] of Object.entries(mediaPrices)) {
    const price = listed[own];
    // Without a price of their own, such tokens have the usual one.
    if (price !== undefined)
      add(
        `${prefix}${setting}`,
        formatUsdPerMtok(configured[own] ?? configured[usual]),
        formatUsdPerMtok(price),
      );
  }
  add(`${prefix}long_context.over`, configured.longContext?.over, listed.longContext?.over);
  const [configuredLong, listedLong] = [configured.longContext?.price, listed.longContext?.price];
  if (!listedLong) return;
  for (const [setting, price] of Object.entries(pricesOf(listedLong)))
    add(`${prefix}long_context.${setting}`, configuredLong && pricesOf(configuredLong)[setting], price);
}

const mediaPrices = {
  in_audio_usd_per_mtok: { own: 'audioInput', usual: 'input' },
  out_audio_usd_per_mtok: { own: 'audioOutput', usual: 'output' },
  in_image_usd_per_mtok: { own: 'imageInput', usual: 'input' },
  out_image_usd_per_mtok: { own: 'imageOutput', usual: 'output' },
} as const;

const pricesOf = (price: Price): Readonly<Record<string, string>> => ({
  in_usd_per_mtok: formatUsdPerMtok(price.input),
  out_usd_per_mtok: formatUsdPerMtok(price.output),
  cache_read_usd_per_mtok: formatUsdPerMtok(price.cacheRead),
  cache_write_usd_per_mtok: formatUsdPerMtok(price.cacheWrite),
  cache_write_1h_usd_per_mtok: formatUsdPerMtok(price.cacheWrite1h),
});
