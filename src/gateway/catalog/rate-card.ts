/** Rate cards: prices as decimal text in US dollars per million tokens, and as exact integers for calculation. */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';
import { hostedTools, serviceTiers, type HostedTool, type ServiceTier } from '../../wires/core/types.ts';
import type { HostedToolPrices, HostedToolPricing, Price, Pricing } from './types.ts';

/** Prices as in `gateway.toml`. Missing cache prices default to the input price. */
export interface Rates {
  readonly in_usd_per_mtok: string;
  readonly out_usd_per_mtok: string;
  readonly cache_read_usd_per_mtok?: string | undefined;
  readonly cache_write_usd_per_mtok?: string | undefined;
  /** Default: `cache_write_usd_per_mtok`. */
  readonly cache_write_1h_usd_per_mtok?: string | undefined;
  /** Tokens of audio and images. Default: the price of other input and output. */
  readonly in_audio_usd_per_mtok?: string | undefined;
  readonly out_audio_usd_per_mtok?: string | undefined;
  readonly in_image_usd_per_mtok?: string | undefined;
  readonly out_image_usd_per_mtok?: string | undefined;
}

/** The prices of a tier. */
export interface TierCard extends Rates {
  /** Replaces these prices for a request whose total input has more than `over` tokens. */
  readonly long_context?: (Rates & { readonly over: number }) | undefined;
}

export interface RateCard extends TierCard {
  readonly tiers?: { readonly [Tier in ServiceTier]?: TierCard | undefined } | undefined;
  readonly hosted_tools?: HostedToolCard | undefined;
}

/** US dollars per call. */
export type HostedToolCard = { readonly [Tool in `${HostedTool}_usd_per_call`]?: string | undefined } & {
  readonly max_calls?: number | undefined;
};

/** Decimal places of a price: 1 USD per million tokens is 10^6 picodollars per token. */
const priceDecimals = 6;
/** 1 USD per call is 10^12 picodollars. */
const callDecimals = 12;

/** Upper limit of a price, far above real ones. A full context window at this price still fits an account balance. */
const maxDollars = 100_000;
const maxDollarsPerCall = 1000;

/** The calls of a request that does not limit them itself, where the rate card does not either. */
const defaultMaxCalls = 8;

/** @returns picodollars per token, or a message that says why the text is not a price */
export function parsePicodollars(text: string): bigint | string {
  return parseDecimal(text, {
    decimals: priceDecimals,
    max: maxDollars,
    unit: 'US dollars a million tokens',
    example: '0.075',
    smallest: `the smallest price is one picodollar per token, "0.000001"`,
  });
}

/** @returns picodollars per call, or a message that says why the text is not a price */
export function parseCallPrice(text: string): bigint | string {
  return parseDecimal(text, {
    decimals: callDecimals,
    max: maxDollarsPerCall,
    unit: 'US dollars a call',
    example: '0.01',
    smallest: 'the smallest price is one picodollar',
  });
}

interface DecimalRules {
  readonly decimals: number;
  readonly max: number;
  readonly unit: string;
  readonly example: string;
  readonly smallest: string;
}

function parseDecimal(
  text: string,
  { decimals, max, unit, example, smallest }: DecimalRules,
): bigint | string {
  if (text.startsWith('-')) return 'must not be negative';
  if (/^\d*\.?\d+e[+-]?\d+$/i.test(text)) return `must be written out, without an exponent, as "${example}"`;
  const [, dollars, fraction = ''] = /^(\d{1,15})(?:\.(\d{1,30}))?$/.exec(text) ?? [];
  if (dollars === undefined) return `expected ${unit} as decimal text, as "${example}"`;
  if (Number(dollars) > max || (Number(dollars) === max && /[1-9]/.test(fraction)))
    return `must be at most ${max} ${unit}`;
  if (/[1-9]/.test(fraction.slice(decimals))) return `must have at most ${decimals} decimals: ${smallest}`;
  return BigInt(dollars + fraction.slice(0, decimals).padEnd(decimals, '0'));
}

/** Formats picodollars per token as the shortest decimal text, such as `0.075`. */
export const formatUsdPerMtok = (pico: bigint): string => formatDecimal(pico, priceDecimals);

/** Formats picodollars as the shortest decimal text in US dollars, such as `0.01`. */
export const formatUsdPerCall = (pico: bigint): string => formatDecimal(pico, callDecimals);

function formatDecimal(amount: bigint, decimals: number): string {
  const digits = String(amount).padStart(decimals + 1, '0');
  const fraction = digits.slice(-decimals).replace(/0+$/, '');
  return digits.slice(0, -decimals) + (fraction === '' ? '' : `.${fraction}`);
}

/** Converts a rate card that `parsePicodollars` has accepted. @throws RangeError for a malformed price */
export function priceOf(card: RateCard): { readonly price: Price; readonly pricing: Pricing } {
  const base = parseTier(card);
  const tiers = serviceTiers.flatMap((name) => {
    const tier = card.tiers?.[name];
    return tier ? [{ name, tier: parseTier(tier, base.rates) }] : [];
  });
  const tools = card.hosted_tools && parseHostedTools(card.hosted_tools);
  const identity = `sha256:${createHash('sha256')
    .update(
      canonicalJson({
        ...base.decimals,
        ...(tiers.length > 0 && {
          tiers: Object.fromEntries(tiers.map(({ name, tier }) => [name, tier.decimals])),
        }),
        ...(tools && { hosted_tools: toToolPricing(tools) }),
      }),
    )
    .digest('hex')}`;
  return {
    price: {
      ...toPrice(base, identity),
      ...(tiers.length > 0 && {
        tiers: Object.fromEntries(tiers.map(({ name, tier }) => [name, toPrice(tier, identity)])),
      }),
      ...(tools && { hostedTools: tools }),
    },
    pricing: {
      ...toPricing(base),
      ...(tiers.length > 0 && {
        tiers: Object.fromEntries(tiers.map(({ name, tier }) => [name, toPricing(tier)])),
      }),
      ...(tools && { hosted_tools: toToolPricing(tools) }),
    },
  };
}

type ParsedRates = ReturnType<typeof parseRates>;
type ParsedTier = ReturnType<typeof parseTier>;

/** @param defaults the prices of audio and images where the tier has none */
function parseTier(card: TierCard, defaults?: ParsedRates) {
  const rates = parseRates(card, defaults);
  const longContext = card.long_context && {
    over: card.long_context.over,
    rates: parseRates(card.long_context, rates),
  };
  return {
    rates,
    longContext,
    decimals: {
      ...toDecimalRates(rates),
      ...(longContext && {
        long_context: { over: longContext.over, ...toDecimalRates(longContext.rates) },
      }),
    },
  };
}

function toPricing({ rates }: ParsedTier) {
  const { cache_write_1h_usd_per_mtok: _, ...pricing } = toDecimalRates(rates);
  return pricing;
}

const toPrice = ({ rates, longContext }: ParsedTier, identity: string): Price => ({
  ...rates,
  ...(longContext && {
    longContext: { over: longContext.over, price: { ...longContext.rates, identity } },
  }),
  identity,
});

function parseRates(rates: Rates, defaults?: MediaRates) {
  const input = parsePrice(rates.in_usd_per_mtok);
  const cacheWrite = parsePrice(rates.cache_write_usd_per_mtok) ?? input;
  return {
    input: input ?? 0n,
    output: parsePrice(rates.out_usd_per_mtok) ?? 0n,
    cacheRead: parsePrice(rates.cache_read_usd_per_mtok) ?? input ?? 0n,
    cacheWrite: cacheWrite ?? 0n,
    cacheWrite1h: parsePrice(rates.cache_write_1h_usd_per_mtok) ?? cacheWrite ?? 0n,
    ...parseMediaRates(rates, defaults),
  };
}

type MediaRates = Pick<Price, 'audioInput' | 'audioOutput' | 'imageInput' | 'imageOutput'>;

function parseMediaRates(rates: Rates, defaults: MediaRates = {}): MediaRates {
  const parsed = {
    audioInput: parsePrice(rates.in_audio_usd_per_mtok) ?? defaults.audioInput,
    audioOutput: parsePrice(rates.out_audio_usd_per_mtok) ?? defaults.audioOutput,
    imageInput: parsePrice(rates.in_image_usd_per_mtok) ?? defaults.imageInput,
    imageOutput: parsePrice(rates.out_image_usd_per_mtok) ?? defaults.imageOutput,
  };
  return Object.fromEntries(Object.entries(parsed).filter(([, price]) => price !== undefined));
}

function parsePrice(text: string | undefined): bigint | undefined {
  return parseText(text, parsePicodollars);
}

function parseText(text: string | undefined, parse: (text: string) => bigint | string): bigint | undefined {
  if (text === undefined) return undefined;
  const pico = parse(text);
  if (typeof pico === 'string') throw new RangeError(`the price '${text}' ${pico}`);
  return pico;
}

function parseHostedTools({
  max_calls: maxCalls = defaultMaxCalls,
  ...prices
}: HostedToolCard): HostedToolPrices {
  const entries = hostedTools.flatMap((tool) => {
    const price = parseText(prices[`${tool}_usd_per_call`], parseCallPrice);
    return price === undefined ? [] : [[tool, price] as const];
  });
  return { perCall: Object.fromEntries(entries), maxCalls };
}

const toToolPricing = ({ perCall, maxCalls }: HostedToolPrices): HostedToolPricing => ({
  ...Object.fromEntries(
    Object.entries(perCall).map(([tool, price]) => [`${tool}_usd_per_call`, formatUsdPerCall(price)]),
  ),
  max_calls: maxCalls,
});

function toDecimalRates(rates: ParsedRates) {
  const { audioInput, audioOutput, imageInput, imageOutput } = rates;
  return {
    in_usd_per_mtok: formatUsdPerMtok(rates.input),
    out_usd_per_mtok: formatUsdPerMtok(rates.output),
    cache_read_usd_per_mtok: formatUsdPerMtok(rates.cacheRead),
    cache_write_usd_per_mtok: formatUsdPerMtok(rates.cacheWrite),
    cache_write_1h_usd_per_mtok: formatUsdPerMtok(rates.cacheWrite1h),
    ...(audioInput !== undefined && { in_audio_usd_per_mtok: formatUsdPerMtok(audioInput) }),
    ...(audioOutput !== undefined && { out_audio_usd_per_mtok: formatUsdPerMtok(audioOutput) }),
    ...(imageInput !== undefined && { in_image_usd_per_mtok: formatUsdPerMtok(imageInput) }),
    ...(imageOutput !== undefined && { out_image_usd_per_mtok: formatUsdPerMtok(imageOutput) }),
  };
}

/** The rate card of models that are free of charge. */
export const freeRateCard = priceOf({ in_usd_per_mtok: '0', out_usd_per_mtok: '0' });
