import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { parse, TomlError } from 'smol-toml';
import { KeyLines } from '../../config/toml-lines.ts';
import { UsageError } from '../../config/usage.ts';
import type { CachePolicy } from '../cache/types.ts';
import { cloudProviderId, residentAlias } from '../catalog/model-names.ts';
import { priceOf, type RateCard } from '../catalog/rate-card.ts';
import type { Deployment, Model, Provider } from '../catalog/types.ts';
import { efforts as allEfforts } from '../../wires/core/effort.ts';
import { serviceTiers } from '../../wires/core/types.ts';
import { checkReferences } from './cross-checks.ts';
import { ConfigFaults } from './config-faults.ts';
import { type Environment, SecretSources } from './secret-sources.ts';
import { readHooks } from './hooks.ts';
import { toCachePolicy } from './cache-policy.ts';
import { ownPricesOf } from './deployment-checks.ts';
import type { DeploymentTable, ModelTable } from './schemas.ts';
import { type Tables, parseTables } from './tables.ts';
import type { ByokProvider, GatewayConfig } from './types.ts';

export interface LoadOptions {
  readonly env: Environment;
  /** Ids of models that the catalog has in addition to those of the file: the host's own. */
  readonly residentIds?: readonly string[];
  /** The flag that names the file, for messages. Default: `--config`. */
  readonly flagName?: string;
}

/** A `gateway.toml`. Secrets are read when they are needed; all faults are reported at once. */
export class GatewayFile {
  readonly #source: string;
  readonly #context: FileContext;

  /**
   * @param source the text of the file
   * @param place the file's name for messages, its folder (base of relative paths), and the options
   */
  constructor(source: string, context: FileContext) {
    this.#source = source;
    this.#context = context;
  }

  static async read(path: string, options: LoadOptions): Promise<GatewayFile> {
    return new GatewayFile(await readSource(path, options.flagName ?? '--config'), {
      ...options,
      name: basename(path),
      folder: dirname(resolve(path)),
    });
  }

  /** The whole configuration. Rejects with `UsageError`, with every fault as `FILE:LINE: KEY: message`. */
  config(): Promise<GatewayConfig> {
    return this.#parseAndCheck(async (tables, sources) => {
      await readDatabaseUrl(tables, sources, this.#context.folder);
      const providers: Provider[] = [];
      for (const { path, value } of tables.providers) {
        const { id, wire, api_key_env: env, api_key_file: file, base_url: url, access = 'house' } = value;
        const at = { env: [...path, 'api_key_env'], file: [...path, 'api_key_file'] };
        const apiKey = await sources.read(env, file, at);
        const apiKeySource = sourceOf(env, file);
        providers.push({
          id,
          wire,
          baseUrls: [url].flat().map(withoutTrailingSlash),
          apiKey,
          apiKeySource,
          access,
        });
      }
      return {
        providers,
        models: tables.models.flatMap(({ value }) => {
          const model = toModel(value, providers);
          const cache = toCachePolicy(tables.cache, value.cache);
          return model ? [cache ? withCache(model, cache) : model] : [];
        }),
        aliases: new Map(tables.aliases.map(({ value }) => [value.name, value.to])),
        fallbacks: new Map(tables.fallbacks.map(({ value }) => [value.model, value.to])),
        byok: toByokProviders(tables, providers),
        // Defaults are absent, so that they leave the identity of a configuration as it was.
        messagesForEveryModel: tables.gateway?.messages_for_every_model || undefined,
        limits: toLimits(tables),
        cache: tables.cache && { maxEntries: tables.cache.max_entries, maxBytes: tables.cache.max_bytes },
        webhook: await readWebhook(tables, sources),
        hooks: tables.hooks.length > 0 ? await readHooks(tables, sources) : undefined,
        masterKeys: await readMasterKeys(tables, sources),
      };
    });
  }

  /** The master keys only; providers' keys may be missing. Rejects with `UsageError`. */
  masterKeys(): Promise<GatewayConfig['masterKeys']> {
    return this.#parseAndCheck(readMasterKeys);
  }

  /** The database URL, if the file has one. Rejects with `UsageError`. */
  database(): Promise<string | undefined> {
    return this.#parseAndCheck((tables, sources) => readDatabaseUrl(tables, sources, this.#context.folder));
  }

  /** The ids and aliases of the file's models, and the ids of the host's own. Rejects with `UsageError`. */
  modelNames(): Promise<string[]> {
    return this.#parseAndCheck(({ declaredIds: named, aliases }) =>
      Promise.resolve([
        ...named.models,
        ...aliases.map(({ value }) => value.name),
        ...(this.#context.residentIds ?? []),
      ]),
    );
  }

  async #parseAndCheck<T>(make: (tables: Tables, sources: SecretSources) => Promise<T>): Promise<T> {
    const { name, folder, env } = this.#context;
    const residentIds = [residentAlias, ...(this.#context.residentIds ?? [])];
    const raw = parseToml(this.#source, name);
    const faults = new ConfigFaults(name, new KeyLines(this.#source));
    const tables = parseTables(raw, faults);
    checkReferences(tables, residentIds, faults);
    const result = await make(tables, new SecretSources(env, folder, faults));
    faults.throwIfAny();
    return result;
  }
}

interface FileContext extends LoadOptions {
  readonly name: string;
  readonly folder: string;
}

async function readSource(path: string, flagName: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const known: Readonly<Record<string, string>> = {
      ENOENT: `there is no such file; copy gateway.example.toml, or name yours with ${flagName} FILE`,
      EISDIR: 'it is a directory; name the file in it',
      EACCES: "not allowed to read it; check the file's owner and mode",
    };
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw new UsageError([`${flagName} ${path}: ${known[code] ?? `cannot be read (${code})`}`]);
  }
}

function parseToml(source: string, name: string): Record<string, unknown> {
  try {
    return parse(source, { integersAsBigInt: 'asNeeded' });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const what = (error.message.split('\n')[0] ?? '').replace(/^Invalid TOML document: /, '');
    throw new UsageError([`${name}:${error.line}:${error.column}: not valid TOML: ${what}`]);
  }
}

async function readDatabaseUrl(
  { database, databaseEnv }: Tables,
  sources: SecretSources,
  folder: string,
): Promise<string | undefined> {
  const url = database ?? (await sources.read(databaseEnv, undefined, { env: ['database_env'], file: [] }));
  const path = /^sqlite:(.+)$/s.exec(url ?? '')?.[1];
  return path === undefined ? url : `sqlite:${resolve(folder, path)}`;
}

const toLimits = ({ limits }: Tables): GatewayConfig['limits'] => ({
  concurrency: limits.concurrency,
  requestsPerMinute: limits.requests_per_minute,
  tokensPerMinute: limits.tokens_per_minute,
  shared: limits.shared,
  maxBodyBytes: limits.max_body_bytes,
  retries: limits.retries,
  breakerFailures: limits.breaker_failures,
  breakerSecs: limits.breaker_secs,
  drainSecs: limits.drain_secs,
  drainIdleSecs: limits.drain_idle_secs,
});

async function readWebhook({ webhook }: Tables, sources: SecretSources): Promise<GatewayConfig['webhook']> {
  if (!webhook) return undefined;
  const at = { env: ['webhook', 'secret_env'], file: ['webhook', 'secret_file'] };
  const key = await sources.webhookKey(webhook.secret_env, webhook.secret_file, at);
  return key && { url: webhook.url, key };
}

async function readMasterKeys(
  { secrets }: Tables,
  sources: SecretSources,
): Promise<GatewayConfig['masterKeys']> {
  if (!secrets) return [];
  const { path, value } = secrets;
  const at = { env: [...path, 'master_key_env'], file: [...path, 'master_key_file'] };
  const keys = [await sources.masterKey(value.master_key_env, value.master_key_file, at)];
  for (const [index, { env, file }] of (value.previous ?? []).entries()) {
    const keyPath = [...path, 'previous', index];
    keys.push(await sources.masterKey(env, file, { env: [...keyPath, 'env'], file: [...keyPath, 'file'] }));
  }
  return keys.filter((key) => key !== undefined);
}

/** A model and its deployments with how their answers are cached. */
const withCache = ({ routing, ...model }: Model, cache: CachePolicy): Model => ({
  ...model,
  cache,
  ...(routing
    ? {
        routing: {
          ...routing,
          deployments: routing.deployments.map((one) => ({ ...one, model: { ...one.model, cache } })),
        },
      }
    : {}),
});

/** @returns undefined where a provider is missing, which is a fault of the file */
function toModel(table: ModelTable, providers: readonly Provider[]): Model | undefined {
  const providerOf = (id: string | undefined) => providers.find((provider) => provider.id === id);
  if (!table.deployments) {
    const provider = providerOf(table.provider);
    return provider && toServedModel(table, provider);
  }
  const deployments = table.deployments.flatMap((deployment) => {
    const provider = providerOf(deployment.provider);
    return provider ? [toDeployment(table, deployment, provider)] : [];
  });
  const [first] = deployments;
  const { routing: strategy = 'priority', sticky = false, hedge = false } = table;
  return first && { ...first.model, routing: { strategy, sticky, hedge, deployments } };
}

function toDeployment(table: ModelTable, deployment: DeploymentTable, provider: Provider): Deployment {
  const { upstream = table.upstream ?? table.id, weight = 1, priority = 1 } = deployment;
  return {
    id: `${provider.id}/${upstream}`,
    model: toServedModel({ ...table, upstream }, provider, ownPricesOf(deployment)),
    weight,
    priority,
    requestsPerMinute: deployment.requests_per_minute,
    concurrency: deployment.concurrency,
  };
}

type Prices = { readonly [Member in keyof RateCard]?: RateCard[Member] | undefined };

/** Prices that are missing are a fault of the file. */
const toPrices = ({ in_usd_per_mtok: input = '0', out_usd_per_mtok: output = '0', ...card }: Prices) =>
  priceOf({ ...card, in_usd_per_mtok: input, out_usd_per_mtok: output });

function toServedModel(table: ModelTable, provider: Provider, prices: Prices = table): Model {
  const tiers = serviceTiers.filter((tier) => prices.tiers?.[tier] !== undefined);
  return {
    id: table.id,
    provider,
    upstream: table.upstream ?? table.id,
    family: table.family,
    caps: new Set(table.caps),
    contextWindow: table.context_window,
    maxOutputTokens: table.max_output_tokens ?? 0,
    ...toPrices(prices),
    ...(tiers.length > 0 ? { serviceTiers: tiers } : {}),
    displayName: table.display_name ?? table.id,
    embeddingDimensions: table.embedding_dimensions,
    efforts: table.efforts && allEfforts.filter((level) => table.efforts?.includes(level)),
  };
}

/** Resolves the [byok] tables. Defaults come from the provider of the same id, or are those of the cloud provider. */
function toByokProviders({ byok }: Tables, providers: readonly Provider[]): ByokProvider[] {
  return byok.map(({ value: { id, wire, base_url: url, host_suffixes: suffixes, base_path: basePath } }) => {
    const provider = providers.find((one) => one.id === id);
    const isCloud = id === cloudProviderId && url === undefined;
    const baseUrl = url ?? (suffixes || isCloud ? undefined : provider?.baseUrls[0]);
    return {
      id,
      wire: wire ?? provider?.wire ?? 'openai-chat',
      baseUrl: baseUrl === undefined ? undefined : withoutTrailingSlash(baseUrl),
      hostSuffixes: suffixes ?? (isCloud ? ['.openai.azure.com'] : []),
      basePath: basePath ?? (isCloud ? '/openai/v1' : ''),
    };
  });
}

function sourceOf(env: string | undefined, file: string | undefined): Provider['apiKeySource'] {
  if (env !== undefined) return { kind: 'env', name: env };
  return file === undefined ? undefined : { kind: 'file', name: file };
}

const withoutTrailingSlash = (url: string): string => url.replace(/\/+$/, '');
