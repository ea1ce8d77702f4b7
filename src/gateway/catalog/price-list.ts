/** Reads published tables of models and prices: that of models.dev, and LiteLLM's. */
import { z } from 'zod';
import { serviceTiers, type Cap, type HostedTool, type ServiceTier } from '../../wires/core/types.ts';
import {
  formatUsdPerCall,
  formatUsdPerMtok,
  parseCallPrice,
  parsePicodollars,
  type RateCard,
  type TierCard,
} from './rate-card.ts';

/** A model of a price list, as `gateway.toml` writes it. */
export interface ListedModel {
  /** The list's name of the provider. */
  readonly provider: string;
  /** The provider's name of the model. */
  readonly id: string;
  readonly name: string | undefined;
  readonly contextWindow: number | undefined;
  readonly maxOutputTokens: number | undefined;
  readonly caps: readonly Cap[];
  readonly embeddingDimensions: number | undefined;
  /** Undefined where the list has no price, or none that can be used. */
  readonly card: RateCard | undefined;
}

export interface PriceList {
  readonly models: readonly ListedModel[];
  /** Entries, and prices of entries, that cannot be used, and why. */
  readonly faults: readonly string[];
}

/** A price as a JSON number, which `JSON.parse` has read as the nearest binary fraction. */
const amount = z.number().nullish();
const count = z.number().nullish();

const devRates = {
  input: amount,
  output: amount,
  cache_read: amount,
  cache_write: amount,
  input_audio: amount,
  output_audio: amount,
};
type DevRates = Partial<Readonly<Record<keyof typeof devRates, number | null | undefined>>>;
const devModel = z.object({
  name: z.string().nullish(),
  reasoning: z.boolean().nullish(),
  tool_call: z.boolean().nullish(),
  structured_output: z.boolean().nullish(),
  modalities: z
    .object({ input: z.array(z.string()), output: z.array(z.string()) })
    .partial()
    .nullish(),
  cost: z.object({ ...devRates, context_over_200k: z.object(devRates).nullish() }).nullish(),
  limit: z.object({ context: count, output: count }).nullish(),
});
const devList = z.record(z.string(), z.looseObject({ models: z.record(z.string(), z.unknown()) }));

const liteModel = z.looseObject({
  litellm_provider: z.string(),
  mode: z.string().nullish(),
  max_input_tokens: count,
  max_tokens: count,
  max_output_tokens: count,
  input_cost_per_token: amount,
  output_cost_per_token: amount,
  cache_read_input_token_cost: amount,
  cache_creation_input_token_cost: amount,
  cache_creation_input_token_cost_above_1hr: amount,
  /** One price, or one for each size of the context that a search adds. */
  search_context_cost_per_query: z.union([amount, z.record(z.string(), amount)]).nullish(),
  file_search_cost_per_1k_calls: amount,
  code_interpreter_cost_per_session: amount,
  supports_function_calling: z.boolean().nullish(),
  supports_vision: z.boolean().nullish(),
  supports_reasoning: z.boolean().nullish(),
  supports_response_schema: z.boolean().nullish(),
  supports_prompt_caching: z.boolean().nullish(),
  output_vector_size: count,
});

/** Text of a price list. @returns a message where it has neither shape */
export function readPriceList(text: string): PriceList | string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return 'it is not JSON';
  }
  const dev = devList.safeParse(parsed);
  if (dev.success && Object.keys(dev.data).length > 0) return fromModelsDev(dev.data);
  if (typeof parsed === 'object' && parsed !== null) {
    const entries = Object.entries(parsed).filter(([, entry]) => liteModel.safeParse(entry).success);
    if (entries.length > 0) return fromLiteLlm(parsed as Readonly<Record<string, unknown>>);
  }
  return 'expected the JSON of models.dev (providers with `models`) or of LiteLLM (models with `litellm_provider`)';
}

function fromModelsDev(list: z.infer<typeof devList>): PriceList {
  const faults: string[] = [];
  const models = Object.entries(list).flatMap(([provider, { models: entries }]) =>
    Object.entries(entries).flatMap(([id, entry]): ListedModel[] => {
      const parsed = devModel.safeParse(entry);
      if (!parsed.success) {
        faults.push(`${provider}/${id}: ${describe(parsed.error)}`);
        return [];
      }
      const { name, cost, limit, modalities, ...flags } = parsed.data;
      const generates = modalities?.output?.includes('text') ?? true;
      const caps = toCaps(generates ? 'chat' : 'none', {
        tools: flags.tool_call,
        images: modalities?.input?.includes('image'),
        reasoning: flags.reasoning,
        structured: flags.structured_output,
        caching: typeof cost?.cache_read === 'number',
      });
      const over = cost?.context_over_200k;
      const prices = {
        rates: devCard(cost ?? {}),
        over: over ? { tokens: 200_000, rates: devCard(over) } : undefined,
      };
      return [
        {
          provider,
          id,
          name: name ?? undefined,
          contextWindow: limit?.context || undefined,
          maxOutputTokens: limit?.output || undefined,
          caps,
          embeddingDimensions: undefined,
          card: toCard(`${provider}/${id}`, { ...prices, caps }, faults),
        },
      ];
    }),
  );
  return { models, faults };
}

function fromLiteLlm(list: Readonly<Record<string, unknown>>): PriceList {
  const faults: string[] = [];
  const models = Object.entries(list).flatMap(([key, entry]): ListedModel[] => {
    if (key === 'sample_spec') return [];
    const parsed = liteModel.safeParse(entry);
    if (!parsed.success) {
      faults.push(`${key}: ${describe(parsed.error)}`);
      return [];
    }
    const model = parsed.data;
    const provider = model.litellm_provider;
    const caps = toCaps(model.mode ?? 'chat', {
      tools: model.supports_function_calling,
      images: model.supports_vision,
      reasoning: model.supports_reasoning,
      structured: model.supports_response_schema,
      caching: model.supports_prompt_caching,
    });
    const over = longContextOf(model);
    const tiers = serviceTiers.map((name) => ({ name, ...liteTier(model, name) }));
    const tools = liteTools(model);
    const card = toCard(key, { rates: liteCard(model, ''), over, caps, tiers, tools }, faults);
    if (card) faults.push(...unusedThresholds(key, model, over));
    return [
      {
        provider,
        // `azure/gpt-5` is the model gpt-5 of azure.
        id: key.startsWith(`${provider}/`) ? key.slice(provider.length + 1) : key,
        name: undefined,
        contextWindow: model.max_input_tokens ?? model.max_tokens ?? undefined,
        maxOutputTokens: model.mode === 'embedding' ? undefined : (model.max_output_tokens ?? undefined),
        caps,
        embeddingDimensions: model.output_vector_size ?? undefined,
        card,
      },
    ];
  });
  return { models, faults };
}

const describe = ({ issues }: z.ZodError): string =>
  issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');

interface Flags {
  readonly tools: boolean | null | undefined;
  readonly images: boolean | null | undefined;
  readonly reasoning: boolean | null | undefined;
  readonly structured: boolean | null | undefined;
  readonly caching: boolean | null | undefined;
}

/** @param mode LiteLLM's; none of the gateway's capabilities fits images, audio and rerank models */
function toCaps(mode: string, { tools, images, reasoning, structured, caching }: Flags): Cap[] {
  if (mode === 'embedding') return ['embeddings'];
  if (mode === 'completion') return ['completions'];
  if (mode !== 'chat' && mode !== 'responses') return [];
  return [
    'chat',
    ...(tools ? (['tools'] as const) : []),
    ...(images ? (['images'] as const) : []),
    ...(reasoning ? (['reasoning'] as const) : []),
    ...(structured ? (['structured_output'] as const) : []),
    ...(caching ? (['caching'] as const) : []),
  ];
}

interface Rates {
  readonly input: string | undefined;
  readonly output: string | undefined;
  readonly cacheRead: string | undefined;
  readonly cacheWrite: string | undefined;
  readonly cacheWrite1h?: string | undefined;
  readonly audioInput?: string | undefined;
  readonly audioOutput?: string | undefined;
  readonly imageInput?: string | undefined;
  readonly imageOutput?: string | undefined;
}
/** US dollars per call. */
type ToolPrices = Readonly<Partial<Record<HostedTool, string | undefined>>>;
interface Tier {
  readonly name: ServiceTier;
  readonly rates: Rates;
  readonly over: LongContext | undefined;
}
interface LongContext {
  readonly tokens: number;
  readonly rates: Rates;
}

const devCard = (rates: DevRates): Rates => ({
  input: shiftDecimal(rates.input, 0),
  output: shiftDecimal(rates.output, 0),
  cacheRead: shiftDecimal(rates.cache_read, 0),
  cacheWrite: shiftDecimal(rates.cache_write, 0),
  audioInput: shiftDecimal(rates.input_audio, 0),
  audioOutput: shiftDecimal(rates.output_audio, 0),
});

/** @param suffix of the members' names, such as `_above_200k_tokens` and `_flex` */
function liteCard(model: Readonly<Record<string, unknown>>, suffix: string): Rates {
  const read = (name: string) => {
    const value = model[`${name}${suffix}`];
    return shiftDecimal(typeof value === 'number' ? value : undefined, 6);
  };
  return {
    input: read('input_cost_per_token'),
    output: read('output_cost_per_token'),
    cacheRead: read('cache_read_input_token_cost'),
    cacheWrite: read('cache_creation_input_token_cost'),
    cacheWrite1h: suffix === '' ? read('cache_creation_input_token_cost_above_1hr') : undefined,
    audioInput: read('input_cost_per_audio_token'),
    audioOutput: read('output_cost_per_audio_token'),
    imageInput: read('input_cost_per_image_token'),
    imageOutput: read('output_cost_per_image_token'),
  };
}

/** The prices of a tier, such as `input_cost_per_token_flex` and `input_cost_per_token_above_272k_tokens_flex`. */
const liteTier = (model: Readonly<Record<string, unknown>>, tier: ServiceTier): Omit<Tier, 'name'> => ({
  rates: liteCard(model, `_${tier}`),
  over: longContextOf(model, `_${tier}`),
});

function liteTools({
  search_context_cost_per_query: search,
  file_search_cost_per_1k_calls: files,
  code_interpreter_cost_per_session: session,
}: z.infer<typeof liteModel>): ToolPrices {
  const sizes = typeof search === 'object' && search !== null ? Object.values(search) : [search];
  const searches = sizes.filter((price) => typeof price === 'number');
  return {
    // The dearest, because a request may ask for any size.
    web_search: searches.length > 0 ? shiftDecimal(Math.max(...searches), 0) : undefined,
    file_search: shiftDecimal(files, -3),
    code_interpreter: shiftDecimal(session, 0),
  };
}

/** The lowest threshold with a price of its own, such as `input_cost_per_token_above_200k_tokens`. @param suffix of a tier */
function longContextOf(model: Readonly<Record<string, unknown>>, suffix = ''): LongContext | undefined {
  const [least] = thresholdsOf(model, new RegExp(`^input_cost_per_token_above_(\\d+)k_tokens${suffix}$`));
  return least === undefined
    ? undefined
    : { tokens: least * 1000, rates: liteCard(model, `_above_${least}k_tokens${suffix}`) };
}

/** A rate card has one threshold: names the others, whose requests would be charged at other prices than the list's. */
function unusedThresholds(
  name: string,
  model: Readonly<Record<string, unknown>>,
  used: LongContext | undefined,
): string[] {
  const rates =
    /^(?:input_cost_per_token|output_cost_per_token|cache_read_input_token_cost|cache_creation_input_token_cost)_above_(\d+)k_tokens$/;
  const unused = thresholdsOf(model, rates).filter((thousands) => thousands * 1000 !== used?.tokens);
  if (unused.length === 0) return [];
  const imported = used ? `only those above ${used.tokens / 1000}k are` : 'they have none of input';
  return [
    `${name}: the prices above ${unused.map((thousands) => `${thousands}k`).join(', ')} tokens are not imported; ${imported}`,
  ];
}

/** Thousands of tokens in the names of prices, ascending. */
function thresholdsOf(model: Readonly<Record<string, unknown>>, names: RegExp): number[] {
  const found = Object.keys(model).flatMap((name) => {
    const [, thousands] = names.exec(name) ?? [];
    return thousands !== undefined && typeof model[name] === 'number' ? [Number(thousands)] : [];
  });
  return [...new Set(found)].sort((one, other) => one - other);
}

interface ListedPrices {
  readonly rates: Rates;
  readonly over: LongContext | undefined;
  readonly caps: readonly Cap[];
  readonly tiers?: readonly Tier[];
  readonly tools?: ToolPrices;
}

/** A rate card of texts that are prices; adds faults for others. */
function toCard(
  name: string,
  { rates, over, caps, tiers = [], tools = {} }: ListedPrices,
  faults: string[],
): RateCard | undefined {
  const isEmbedding = caps.includes('embeddings');
  // A missing price is not a price of 0.
  if (rates.input === undefined || (rates.output === undefined && !isEmbedding)) return undefined;
  // A tier with some prices only cannot be billed.
  const whole = isEmbedding
    ? []
    : tiers.filter((tier) => tier.rates.input !== undefined && tier.rates.output !== undefined);
  const all = [rates, over?.rates, ...whole.flatMap((tier) => [tier.rates, tier.over?.rates])];
  const wrong = [
    ...all.flatMap((one) => wrongPrices(Object.values(one ?? {}), parsePicodollars)),
    ...wrongPrices(Object.values(tools), parseCallPrice),
  ];
  if (wrong.length > 0) {
    // Several rates may have the same wrong price.
    faults.push(...new Set(wrong.map((fault) => `${name}: ${fault}`)));
    return undefined;
  }
  for (const tier of whole)
    if (over && !tier.over)
      faults.push(
        `${name}: the tier ${tier.name} has no prices above ${over.tokens / 1000}k tokens; its others apply to inputs of any length`,
      );
  const hosted = isEmbedding ? [] : Object.entries(tools).filter(([, text]) => text !== undefined);
  return {
    ...toTierCard(rates, over),
    ...(whole.length > 0
      ? { tiers: Object.fromEntries(whole.map((tier) => [tier.name, toTierCard(tier.rates, tier.over)])) }
      : {}),
    ...(hosted.length > 0
      ? {
          hosted_tools: Object.fromEntries(
            hosted.map(([tool, text]) => [`${tool}_usd_per_call`, shortestCall(text)]),
          ),
        }
      : {}),
  };
}

const wrongPrices = (texts: readonly unknown[], parse: (text: string) => bigint | string): string[] =>
  texts.flatMap((text) => {
    const pico = typeof text === 'string' ? parse(text) : 0n;
    return typeof pico === 'string' ? [`the price ${String(text)} ${pico}`] : [];
  });

function toTierCard(rates: Rates, over: LongContext | undefined): TierCard {
  // Embeddings have no output.
  const card = { in_usd_per_mtok: '0', out_usd_per_mtok: '0', ...toRates(rates) };
  // Rates that the long context does not have are those of the short one.
  const long =
    over?.rates.input === undefined ? undefined : { over: over.tokens, ...card, ...toRates(over.rates) };
  return { ...card, ...(long ? { long_context: long } : {}) };
}

/** The rates that the list has. */
const toRates = (rates: Rates): Partial<TierCard> => {
  const members = {
    in_usd_per_mtok: shortest(rates.input),
    out_usd_per_mtok: shortest(rates.output),
    cache_read_usd_per_mtok: shortest(rates.cacheRead),
    cache_write_usd_per_mtok: shortest(rates.cacheWrite),
    cache_write_1h_usd_per_mtok: shortest(rates.cacheWrite1h),
    in_audio_usd_per_mtok: shortest(rates.audioInput),
    out_audio_usd_per_mtok: shortest(rates.audioOutput),
    in_image_usd_per_mtok: shortest(rates.imageInput),
    out_image_usd_per_mtok: shortest(rates.imageOutput),
  };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
};

/** The shortest text of a price. */
function shortest(text: string | undefined): string | undefined {
  const pico = text === undefined ? undefined : parsePicodollars(text);
  return typeof pico === 'bigint' ? formatUsdPerMtok(pico) : undefined;
}

function shortestCall(text: string | undefined): string | undefined {
  const pico = text === undefined ? undefined : parseCallPrice(text);
  return typeof pico === 'bigint' ? formatUsdPerCall(pico) : undefined;
}

/**
 * A number times 10^places as decimal text, exactly: a JSON number of up to 15 digits is what `String` writes.
 * Beyond the 6 decimals of a price, digits that only binary fractions have (0.30000000000000004) are rounded away.
 */
function shiftDecimal(value: number | null | undefined, places: number): string | undefined {
  if (value === null || value === undefined) return undefined;
  const [mantissa = '', exponent = '0'] = String(value).split('e');
  const [, sign = '', whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(mantissa) ?? [];
  const digits = whole + fraction;
  const point = whole.length + Number(exponent) + places;
  const padded = point <= 0 ? '0'.repeat(1 - point) + digits : digits.padEnd(point, '0');
  const at = Math.max(point, 1);
  const text = `${padded.slice(0, at)}.${padded.slice(at)}`.replace(/\.?0*$/, '');
  return sign + roundNoise(text === '' ? '0' : text);
}

/** Removes the noise of a double: fifteen significant digits and more. */
function roundNoise(text: string): string {
  const significant = text.replace('.', '').replace(/^0+/, '');
  if (significant.length <= 15) return text;
  const rounded = Number(Number(text).toPrecision(12));
  return rounded.toFixed(12).replace(/\.?0*$/, '');
}
