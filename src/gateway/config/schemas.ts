/** Schemas of the tables of `gateway.toml`, with the member names of the file. */
import { z } from 'zod';
import { parseCallPrice, parsePicodollars } from '../catalog/rate-card.ts';
import { caps } from '../../wires/core/types.ts';
import { efforts } from '../../wires/core/effort.ts';
import { wireNames } from '../../wires/providers.ts';
import { maxCallCount } from '../../wires/core/hosted-calls.ts';
import { routingStrategies } from '../catalog/types.ts';
import { failurePolicies, hookStages } from '../hooks/types.ts';
import { cacheUses } from '../cache/types.ts';

const textSchema = z.string({ error: 'expected a text' });
const nonEmptyText = textSchema.min(1, 'must not be empty');
const integerBetween = (min: number, max: number, unit: string) => {
  const error = `expected a whole number from ${min} to ${max}${unit}`;
  return z.int({ error }).min(min, error).max(max, error);
};
const enumOf = <const T extends string>(names: readonly T[]) =>
  z.enum(names, { error: `expected one of ${names.join(', ')}` });
const arrayOf = <T extends z.ZodType>(of: T, what: string) =>
  z.array(of, { error: `expected a list of ${what}` });

const variableName = textSchema.regex(
  /^[A-Za-z_][A-Za-z0-9_]*$/,
  'expected the name of an environment variable: letters, digits and _',
);
const webUrl = textSchema.superRefine((value, context) => {
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) context.addIssue('expected an http:// or https:// URL');
  else if (url.username !== '' || url.password !== '')
    context.addIssue('must not hold a user or password; name the key with api_key_env or api_key_file');
  else if (url.search !== '' || url.hash !== '') context.addIssue('must end with its path, without ? and #');
});
const webhookUrl = textSchema.superRefine((value, context) => {
  const url = /^https?:\/\//i.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) context.addIssue('expected an http:// or https:// URL');
  else if (url.username !== '' || url.password !== '')
    context.addIssue('must not hold a user or password: requests are signed instead');
});
export const providerId = textSchema.regex(
  /^[a-z][a-z0-9-]{0,31}$/,
  'expected a lower-case letter and up to 31 lower-case letters, digits and dashes',
);
const modelId = textSchema.regex(
  /^[A-Za-z0-9][\w.:/@+-]{0,127}$/,
  'expected up to 128 letters, digits and . _ - : / @ +, a letter or digit first',
);

const priceText = (parse: (text: string) => bigint | string, expected: string) =>
  z
    .string({
      error: ({ input }) =>
        typeof input === 'number' || typeof input === 'bigint'
          ? `expected decimal text in quotes, as "${input}": a number is binary floating point, which cannot hold most prices exactly`
          : expected,
    })
    .superRefine((value, context) => {
      const pico = parse(value);
      if (typeof pico === 'string') context.addIssue(pico);
    });
const price = priceText(parsePicodollars, 'expected US dollars a million tokens as decimal text, as "0.075"');
const callPrice = priceText(parseCallPrice, 'expected US dollars a call as decimal text, as "0.01"');
const rates = {
  in_usd_per_mtok: price,
  cache_read_usd_per_mtok: price.optional(),
  cache_write_usd_per_mtok: price.optional(),
  cache_write_1h_usd_per_mtok: price.optional(),
  in_audio_usd_per_mtok: price.optional(),
  out_audio_usd_per_mtok: price.optional(),
  in_image_usd_per_mtok: price.optional(),
  out_image_usd_per_mtok: price.optional(),
};

const maxTokens = 100_000_000;

const provider = z.strictObject({
  id: providerId,
  wire: enumOf(wireNames),
  base_url: z.union([webUrl, z.array(webUrl).min(1, 'must name at least one URL')], {
    error: ({ input }) =>
      Array.isArray(input)
        ? 'expected a list of http:// or https:// URLs'
        : 'expected an http:// or https:// URL, or for the wire lathe a list of them',
  }),
  api_key_env: variableName.optional(),
  api_key_file: nonEmptyText.optional(),
  access: enumOf(['house', 'byok']).optional(),
});

const longContext = z
  .strictObject(
    { over: integerBetween(1, maxTokens, ' tokens'), ...rates, out_usd_per_mtok: price },
    { error: 'expected a table { over = TOKENS, in_usd_per_mtok = "...", out_usd_per_mtok = "..." }' },
  )
  .optional();

/** The prices of a service tier. */
const tier = z
  .strictObject(
    { ...rates, out_usd_per_mtok: price, long_context: longContext },
    { error: 'expected a table { in_usd_per_mtok = "...", out_usd_per_mtok = "..." }' },
  )
  .optional();

const tiers = z
  .strictObject({ flex: tier, priority: tier }, { error: 'expected tables [models.tiers.flex]' })
  .optional();

const hostedTools = z
  .strictObject(
    {
      web_search_usd_per_call: callPrice.optional(),
      file_search_usd_per_call: callPrice.optional(),
      code_interpreter_usd_per_call: callPrice.optional(),
      max_calls: integerBetween(1, maxCallCount, ' calls').optional(),
    },
    { error: 'expected a table { web_search_usd_per_call = "...", max_calls = CALLS }' },
  )
  .optional();

/** Prices besides those of the default tier's tokens. */
const furtherPrices = { long_context: longContext, tiers, hosted_tools: hostedTools };

const deployment = z.strictObject({
  provider: nonEmptyText,
  upstream: nonEmptyText.optional(),
  weight: integerBetween(1, 1000, '').optional(),
  priority: integerBetween(1, 100, '').optional(),
  requests_per_minute: integerBetween(1, 10_000_000, ' requests').optional(),
  concurrency: integerBetween(1, 100_000, ' requests').optional(),
  ...rates,
  in_usd_per_mtok: price.optional(),
  out_usd_per_mtok: price.optional(),
  ...furtherPrices,
});

const maxTtlSecs = 30 * 24 * 3600;
/** Members of [cache] and of a model's `cache`. */
const cachePolicy = {
  use: enumOf(cacheUses).optional(),
  ttl_secs: integerBetween(1, maxTtlSecs, ' seconds').optional(),
  hit_price_nanousd: integerBetween(0, 1e12, ' nanodollars').optional(),
  hit_price_percent: integerBetween(0, 100, ' percent').optional(),
};
const modelCache = z.strictObject(cachePolicy, {
  error: 'expected a table such as { use = "on_request", ttl_secs = 600 }',
});
const cache = z.strictObject(
  {
    ...cachePolicy,
    max_entries: integerBetween(1, 10_000_000, ' answers').default(10_000),
    max_bytes: integerBetween(1, 1e12, ' bytes').default(268_435_456),
  },
  { error: 'expected a table [cache]' },
);

const model = z.strictObject({
  id: modelId,
  provider: nonEmptyText.optional(),
  deployments: z
    .array(deployment, { error: 'expected tables [[models.deployments]]' })
    .min(1, 'must have at least one deployment')
    .max(32, 'must have at most 32 deployments')
    .optional(),
  routing: enumOf(routingStrategies).optional(),
  sticky: z.boolean({ error: 'expected true or false' }).optional(),
  hedge: z.boolean({ error: 'expected true or false' }).optional(),
  upstream: nonEmptyText.optional(),
  family: nonEmptyText,
  caps: arrayOf(enumOf(caps), `capabilities: ${caps.join(', ')}`).min(
    1,
    `must name at least one of ${caps.join(', ')}`,
  ),
  context_window: integerBetween(1, maxTokens, ' tokens'),
  max_output_tokens: integerBetween(1, maxTokens, ' tokens').optional(),
  ...rates,
  out_usd_per_mtok: price.optional(),
  ...furtherPrices,
  display_name: nonEmptyText.optional(),
  embedding_dimensions: integerBetween(1, 1_000_000, '').optional(),
  efforts: arrayOf(enumOf(efforts), 'levels of effort').optional(),
  cache: modelCache.optional(),
});

const fallback = z.strictObject({
  model: nonEmptyText,
  to: arrayOf(nonEmptyText, 'ids of models')
    .min(1, 'must name at least one model')
    .max(3, 'must name at most 3 models'),
});

const byok = z.strictObject({
  wire: enumOf(wireNames).optional(),
  base_url: webUrl.optional(),
  host_suffixes: arrayOf(
    textSchema.regex(
      /^\.[a-z0-9-]+(?:\.[a-z0-9-]+)+$/,
      'expected the end of a host name, as ".openai.azure.com"',
    ),
    'ends of host names',
  )
    .min(1, 'must name at least one')
    .optional(),
  base_path: textSchema.regex(/^(?:\/[\w.-]+)+$/, 'expected a path, as "/openai/v1"').optional(),
});

const secretSource = z.strictObject(
  { env: variableName.optional(), file: nonEmptyText.optional() },
  { error: 'expected { env = "NAME" } or { file = "PATH" }' },
);
const secrets = z.strictObject({
  master_key_env: variableName.optional(),
  master_key_file: nonEmptyText.optional(),
  previous: arrayOf(secretSource, 'earlier keys, { env = "NAME" } or { file = "PATH" }').optional(),
});

const webhook = z.strictObject(
  { url: webhookUrl, secret_env: variableName.optional(), secret_file: nonEmptyText.optional() },
  { error: 'expected a table [webhook]' },
);

const gateway = z.strictObject(
  { messages_for_every_model: z.boolean({ error: 'expected true or false' }).default(false) },
  { error: 'expected a table [gateway]' },
);

const limits = z.strictObject({
  concurrency: integerBetween(1, 100_000, ' requests').default(128),
  requests_per_minute: integerBetween(1, 10_000_000, ' requests').default(6000),
  tokens_per_minute: integerBetween(1, 1e12, ' tokens').optional(),
  shared: z.boolean({ error: 'expected true or false' }).default(false),
  max_body_bytes: integerBetween(1024, 1_073_741_824, ' bytes').default(33_554_432),
  retries: integerBetween(0, 10, '').default(2),
  breaker_failures: integerBetween(1, 1000, ' failures').default(5),
  breaker_secs: integerBetween(1, 3600, ' seconds').default(15),
  drain_secs: integerBetween(0, 2400, ' seconds').default(60),
  drain_idle_secs: integerBetween(1, 120, ' seconds').default(20),
});

const hook = z.strictObject({
  name: textSchema.regex(
    /^[a-z][a-z0-9-]{0,31}$/,
    'expected a lower-case letter and up to 31 lower-case letters, digits and dashes',
  ),
  stage: enumOf(hookStages).optional(),
  models: arrayOf(nonEmptyText, 'ids of models').min(1, 'must name at least one model').optional(),
  url: webhookUrl.optional(),
  secret_env: variableName.optional(),
  secret_file: nonEmptyText.optional(),
  timeout_ms: integerBetween(10, 60_000, ' milliseconds').optional(),
  on_failure: enumOf(failurePolicies).optional(),
  redact: z
    .union([z.boolean(), z.array(textSchema).min(1, 'must have at least one pattern')], {
      error: 'expected true, or a list of pattern sets and RE2 expressions',
    })
    .optional(),
});

const database = textSchema.regex(
  /^(?:sqlite:.+|postgres(?:ql)?:\/\/.+)$/,
  'expected sqlite:PATH or postgres://...',
);

export type ProviderTable = z.infer<typeof provider>;
export type ModelTable = z.infer<typeof model>;
export type DeploymentTable = z.infer<typeof deployment>;
export type FallbackTable = z.infer<typeof fallback>;
export type ByokTable = z.infer<typeof byok>;
export type SecretsTable = z.infer<typeof secrets>;
export type WebhookTable = z.infer<typeof webhook>;
export type GatewayTable = z.infer<typeof gateway>;
export type HookTable = z.infer<typeof hook>;
export type CacheTable = z.infer<typeof cache>;
export type CachePolicyTable = z.infer<typeof modelCache>;
export type LimitsTable = z.infer<typeof limits>;

/** Schemas by table name. */
export const tableSchemas = {
  providers: provider,
  models: model,
  fallbacks: fallback,
  byok,
  secrets,
  webhook,
  gateway,
  hooks: hook,
  cache,
  limits,
};
/** Top-level members, before the first table. */
export const topLevelSchemas = { database: database.optional(), database_env: variableName.optional() };
export const aliasSchemas = { name: modelId, to: nonEmptyText };

/** Known keys of each table, for suggestions; `models.long_context` and others are tables within a model. */
export const knownKeysByTable: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    Object.entries(tableSchemas).map(([name, shape]) => [name, Object.keys(shape.shape)]),
  ),
  'models.cache': Object.keys(cachePolicy),
  'models.deployments': Object.keys(deployment.shape),
  ...Object.fromEntries(
    ['models', 'models.deployments'].flatMap((table) => [
      [`${table}.long_context`, Object.keys(longContext.unwrap().shape)],
      [`${table}.hosted_tools`, Object.keys(hostedTools.unwrap().shape)],
      [`${table}.tiers`, Object.keys(tiers.unwrap().shape)],
      ...Object.keys(tiers.unwrap().shape).flatMap((name) => [
        [`${table}.tiers.${name}`, Object.keys(tier.unwrap().shape)],
        [`${table}.tiers.${name}.long_context`, Object.keys(longContext.unwrap().shape)],
      ]),
    ]),
  ),
  'secrets.previous': Object.keys(secretSource.shape),
};
/** Members whose values may be secrets; messages do not repeat their values. */
export const secretMembers: readonly string[] = [
  'api_key_env',
  'master_key_env',
  'database',
  'database_env',
  'base_url',
  'url',
  'secret_env',
  'env',
];
