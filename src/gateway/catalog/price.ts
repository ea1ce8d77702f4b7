/** Exact cost calculation: rates in picodollars (1e-12 USD) per token, costs in whole nanodollars per request. */
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { Model, Price } from './types.ts';
import { boundCalls } from './hosted-calls.ts';
import {
  hostedTools,
  serviceTiers,
  type Cost,
  type CostLine,
  type ServiceTier,
  type Usage,
} from '../../wires/core/types.ts';

const picoPerNano = 1000n;

/** Upper limit of reported tokens, above any real request. Larger reports are cut to it. */
const maxReportedTokens = 1e9;

/** Billed tokens. Reports that are negative or not a number count as 0. */
export const billedTokens = (tokens: number): bigint =>
  Number.isFinite(tokens) && tokens > 0 ? BigInt(Math.ceil(Math.min(tokens, maxReportedTokens))) : 0n;

const ceilToNanodollars = (pico: bigint): bigint => (pico + picoPerNano - 1n) / picoPerNano;

/** Cost of one request, rounded up once. Cache reads and writes count toward the long-context threshold. */
export function costOf(price: Price, usage: Usage): Cost {
  const tokens = {
    fresh: billedTokens(usage.fresh),
    write: billedTokens(usage.cacheWrite),
    write1h: billedTokens(usage.cacheWrite1h),
    read: billedTokens(usage.cacheRead),
  };
  const tier = usage.tier && price.tiers?.[usage.tier] ? usage.tier : undefined;
  const card = (tier && price.tiers?.[tier]) ?? price;
  const input = tokens.fresh + tokens.write + tokens.write1h + tokens.read;
  const rates = card.longContext && input > BigInt(card.longContext.over) ? card.longContext.price : card;
  const fresh = splitMedia(tokens.fresh, rates.input, [
    { item: 'audio_input', tokens: usage.audioInput, rate: rates.audioInput },
    { item: 'image_input', tokens: usage.imageInput, rate: rates.imageInput },
  ]);
  const output = splitMedia(billedTokens(usage.output), rates.output, [
    { item: 'audio_output', tokens: usage.audioOutput, rate: rates.audioOutput },
    { item: 'image_output', tokens: usage.imageOutput, rate: rates.imageOutput },
  ]);
  const { hostedCalls } = usage;
  const calls = (hostedCalls ? hostedTools : []).flatMap((tool): Part[] => {
    const count = billedTokens(hostedCalls?.[tool] ?? 0);
    const perCall = price.hostedTools?.perCall[tool];
    return count === 0n || perCall === undefined
      ? []
      : [{ component: 'tools', item: tool, quantity: Number(count), pico: count * perCall }];
  });
  return {
    ...splitRounded([
      { component: 'fresh', pico: fresh.rest },
      {
        component: 'cache_write',
        pico: tokens.write * rates.cacheWrite + tokens.write1h * rates.cacheWrite1h,
      },
      { component: 'cache_read', pico: tokens.read * rates.cacheRead },
      { component: 'output', pico: output.rest },
      ...fresh.media.map((part): Part => ({ component: 'fresh', ...part })),
      ...output.media.map((part): Part => ({ component: 'output', ...part })),
      ...calls,
    ]),
    ...(tier ? { tier } : {}),
  };
}

/** A part of a cost, in picodollars, before it is rounded. */
interface Part {
  readonly component: 'fresh' | 'cache_write' | 'cache_read' | 'output' | 'tools';
  /** Set where it is a line of its own. */
  readonly item?: CostLine['item'];
  readonly quantity?: number;
  readonly pico: bigint;
}

interface Media {
  readonly item: CostLine['item'];
  readonly tokens: number | undefined;
  /** Undefined: the price of other tokens. */
  readonly rate: bigint | undefined;
}

/** Takes tokens with prices of their own out of all tokens. More than there are cannot be taken. */
function splitMedia(all: bigint, rate: bigint, kinds: readonly Media[]) {
  let left = all;
  const media = kinds.flatMap(({ item, tokens, rate: own }) => {
    if (own === undefined) return [];
    const reported = billedTokens(tokens ?? 0);
    const count = reported < left ? reported : left;
    left -= count;
    return count === 0n ? [] : [{ item, quantity: Number(count), pico: count * own }];
  });
  return { rest: left * rate, media };
}

/** Converts picodollars to whole nanodollars that add up to the total (largest remainder method). */
function splitRounded(parts: readonly Part[]): Cost {
  const total = ceilToNanodollars(parts.reduce((sum, { pico }) => sum + pico, 0n));
  const whole = parts.map((part) => ({
    part,
    cost: part.pico / picoPerNano,
    remainder: part.pico % picoPerNano,
  }));
  let unassigned = whole.reduce((rest, { cost }) => rest - cost, total);
  if (unassigned > 0n)
    for (const one of whole.toSorted((a, b) => Number(b.remainder - a.remainder))) {
      if (unassigned === 0n) break;
      one.cost += 1n;
      unassigned -= 1n;
    }
  const components = { fresh: 0n, cache_write: 0n, cache_read: 0n, output: 0n, tools: 0n };
  for (const { part, cost } of whole) components[part.component] += cost;
  const lines = whole.flatMap(({ part: { item, quantity = 0 }, cost }): CostLine[] =>
    item ? [{ item, quantity, cost }] : [],
  );
  const { tools, ...tokens } = components;
  const hasCalls = parts.some(({ component }) => component === 'tools');
  return {
    total,
    components: hasCalls ? { ...tokens, tools } : tokens,
    ...(lines.length > 0 ? { lines } : {}),
  };
}

/** The facts of a request that its cost bound depends on. */
type CostFacts = Pick<
  RequestFacts,
  | 'textBytes'
  | 'parts'
  | 'images'
  | 'fileBytes'
  | 'answers'
  | 'media'
  | 'hostedTools'
  | 'maxHostedCalls'
  | 'serviceTier'
>;
type PricedModel = Pick<Model, 'price' | 'contextWindow' | 'family'> & {
  readonly provider?: Pick<Model['provider'], 'wire'>;
};

/** Tokens that a chat template adds around each part and each request. */
const tokensPerPart = 64;
const tokensPerRequest = 256;
/**
 * Upper limit of the tokens of one image, by model family: tiles of 768 x 768 pixels at 258 tokens (google), pixels / 750
 * (anthropic), tiles of 512 x 512 pixels at up to 5667 tokens plus a base of 2833 (openai's small models).
 */
const tokensPerImage: Readonly<Record<string, number>> = { anthropic: 8192, google: 8192, mistral: 8192 };
const maxTokensPerImage = 49_152;

/**
 * Upper limit of the input tokens of a request. A byte-level tokenizer makes at most one token per byte. Files are
 * compressed, so only the context window limits them. In a list of prompts each has a window of its own.
 */
export function maxInputTokens(
  { contextWindow, family }: Omit<PricedModel, 'price'>,
  facts: CostFacts,
): bigint {
  const windows = billedTokens(contextWindow) * BigInt(Math.max(1, facts.answers));
  if (facts.fileBytes > 0) return windows;
  const text = facts.textBytes + tokensPerPart * facts.parts + tokensPerRequest;
  const tokens = billedTokens(text + facts.images * (tokensPerImage[family] ?? maxTokensPerImage));
  return tokens < windows ? tokens : windows;
}

/**
 * The maximum cost of a request, in nanodollars: every input token at its highest possible rate, every answer at its full
 * length, in the dearest tier that it may get. After each call of a tool that the provider runs, the model reads its input
 * again, with what the tool found.
 * @param maxTokens output limit of one answer
 */
export function maxCost({
  model,
  facts,
  maxTokens,
}: {
  model: PricedModel;
  facts: CostFacts;
  maxTokens: number;
}): bigint {
  const { price } = model;
  const calls = boundCalls(model, facts);
  const windows = BigInt(calls.total) * billedTokens(model.contextWindow);
  const input = maxInputTokens(model, facts) + windows;
  const rates = [price, ...possibleTiers(model, facts).map((tier) => price.tiers?.[tier] ?? price)].flatMap(
    (card) =>
      card.longContext && input > BigInt(card.longContext.over) ? [card, card.longContext.price] : [card],
  );
  const has = (kind: NonNullable<CostFacts['media']>[number]) => facts.media?.includes(kind) === true;
  const inputRates = rates.flatMap((rate) => [
    rate.input,
    rate.cacheWrite,
    rate.cacheWrite1h,
    rate.cacheRead,
    has('audio_input') ? (rate.audioInput ?? 0n) : 0n,
    // The pages of a file are images, too.
    facts.images > 0 || facts.fileBytes > 0 ? (rate.imageInput ?? 0n) : 0n,
  ]);
  const outputRates = rates.flatMap((rate) => [
    rate.output,
    has('audio_output') ? (rate.audioOutput ?? 0n) : 0n,
    has('image_output') ? (rate.imageOutput ?? 0n) : 0n,
  ]);
  const output = billedTokens(maxTokens) * BigInt(Math.max(1, facts.answers));
  return ceilToNanodollars(input * maxAmount(inputRates) + output * maxAmount(outputRates) + calls.cost);
}

/**
 * The tiers that a request may get besides the default one. Anthropic takes its priority tier by itself, if the request does
 * not forbid it; other providers take a tier that the request asks for, and may take the default one instead.
 */
export function possibleTiers(
  { price, provider }: Pick<PricedModel, 'price' | 'provider'>,
  { serviceTier }: Pick<CostFacts, 'serviceTier'>,
): ServiceTier[] {
  return serviceTiers.filter(
    (tier) =>
      price.tiers?.[tier] !== undefined &&
      (provider?.wire === 'anthropic-messages'
        ? tier === 'priority' && serviceTier !== 'standard_only'
        : tier === serviceTier),
  );
}

/**
 * Estimates the output tokens that fit in the context window after the prompt, at two bytes a token; at least an eighth of
 * the window.
 */
export function estimateOutputRoom({ contextWindow }: Omit<PricedModel, 'price'>, facts: CostFacts): number {
  const prompt = Math.ceil(facts.textBytes / 2) + 16 * (facts.parts + 2);
  return Math.max(contextWindow - prompt, Math.ceil(contextWindow / 8));
}

/** Estimates the input tokens of a request: its text at four bytes a token. */
export const estimateInputTokens = ({ textBytes }: Pick<CostFacts, 'textBytes'>): number =>
  Math.ceil(textBytes / 4);

/** Estimates the cost of a request, in nanodollars: its text at four bytes a token, and every answer at its full length. */
export function estimateCost({
  model,
  facts,
  maxTokens,
}: {
  model: PricedModel;
  facts: CostFacts;
  maxTokens: number;
}): bigint {
  return costOf(model.price, {
    fresh: facts.textBytes / 4,
    cacheWrite: 0,
    cacheWrite1h: 0,
    cacheRead: 0,
    output: maxTokens * Math.max(1, facts.answers),
  }).total;
}

/** Estimates the minimum cost of a request, in nanodollars: its text at four bytes a token, and no output. */
export function estimateMinCost({ model, facts }: { model: PricedModel; facts: CostFacts }): bigint {
  const tokens = billedTokens(facts.textBytes / 4);
  const maxInput = maxInputTokens(model, facts);
  return ceilToNanodollars((tokens < maxInput ? tokens : maxInput) * model.price.input);
}

const maxAmount = (amounts: readonly bigint[]): bigint =>
  amounts.reduce((most, amount) => (amount > most ? amount : most), 0n);
