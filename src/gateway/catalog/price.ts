/** Exact cost calculation: rates in picodollars (1e-12 USD) per token, costs in whole nanodollars per request. */
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { Model, Price } from './types.ts';
import type { Cost, Usage } from '../../wires/core/types.ts';

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
  const input = tokens.fresh + tokens.write + tokens.write1h + tokens.read;
  const rates = price.longContext && input > BigInt(price.longContext.over) ? price.longContext.price : price;
  return splitRounded({
    fresh: tokens.fresh * rates.input,
    cache_write: tokens.write * rates.cacheWrite + tokens.write1h * rates.cacheWrite1h,
    cache_read: tokens.read * rates.cacheRead,
    output: billedTokens(usage.output) * rates.output,
  });
}

/** Converts picodollars to whole nanodollars that add up to the total (largest remainder method). */
function splitRounded(pico: Cost['components']): Cost {
  const names = ['fresh', 'cache_write', 'cache_read', 'output'] as const;
  const total = ceilToNanodollars(names.reduce((sum, name) => sum + pico[name], 0n));
  const components = {
    fresh: pico.fresh / picoPerNano,
    cache_write: pico.cache_write / picoPerNano,
    cache_read: pico.cache_read / picoPerNano,
    output: pico.output / picoPerNano,
  };
  let unassigned = names.reduce((rest, name) => rest - components[name], total);
  const remainders = names.map((name) => ({ name, remainder: pico[name] % picoPerNano }));
  for (const { name } of remainders.sort((a, b) => Number(b.remainder - a.remainder))) {
    if (unassigned === 0n) break;
    components[name] += 1n;
    unassigned -= 1n;
  }
  return { total, components };
}

/** The facts of a request that its cost bound depends on. */
type CostFacts = Pick<RequestFacts, 'textBytes' | 'parts' | 'images' | 'fileBytes' | 'answers'>;
type PricedModel = Pick<Model, 'price' | 'contextWindow' | 'family'>;

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
 * length.
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
  const input = maxInputTokens(model, facts);
  const rates = [price];
  if (price.longContext && input > BigInt(price.longContext.over)) rates.push(price.longContext.price);
  const highestRate = maxAmount(
    rates.flatMap(({ input: fresh, cacheWrite, cacheWrite1h, cacheRead }) => [
      fresh,
      cacheWrite,
      cacheWrite1h,
      cacheRead,
    ]),
  );
  const output = billedTokens(maxTokens) * BigInt(Math.max(1, facts.answers));
  return ceilToNanodollars(input * highestRate + output * maxAmount(rates.map((rate) => rate.output)));
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
