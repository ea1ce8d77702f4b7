/** What answers cost: picodollars a token, whole nanodollars a request, all of it exact. */
import type { RequestFacts } from '../../wires/core/wire.ts';
import type { Model, Price } from './types.ts';
import type { Cost, Usage } from '../../wires/core/types.ts';

const picoPerNano = 1000n;

/** More than any model reads or writes: a provider that reports more does not count. */
const mostTokens = 1e9;

/** Tokens as billed: a provider that reports less than nothing, or no number, is not paid for it. */
const count = (tokens: number): bigint =>
  Number.isFinite(tokens) && tokens > 0 ? BigInt(Math.ceil(Math.min(tokens, mostTokens))) : 0n;

const roundedUp = (pico: bigint): bigint => (pico + picoPerNano - 1n) / picoPerNano;

/** Of one request, rounded up once. What was read from a cache or written to it counts as input for the long context. */
export function cost(price: Price, usage: Usage): Cost {
  const tokens = {
    fresh: count(usage.fresh),
    write: count(usage.cacheWrite),
    write1h: count(usage.cacheWrite1h),
    read: count(usage.cacheRead),
  };
  const input = tokens.fresh + tokens.write + tokens.write1h + tokens.read;
  const rates = price.longContext && input > BigInt(price.longContext.over) ? price.longContext.price : price;
  return shared({
    fresh: tokens.fresh * rates.input,
    cache_write: tokens.write * rates.cacheWrite + tokens.write1h * rates.cacheWrite1h,
    cache_read: tokens.read * rates.cacheRead,
    output: count(usage.output) * rates.output,
  });
}

/** Picodollars to whole nanodollars that add up: those with the largest remainders get what rounding leaves over. */
function shared(pico: Cost['components']): Cost {
  const names = ['fresh', 'cache_write', 'cache_read', 'output'] as const;
  const total = roundedUp(names.reduce((sum, name) => sum + pico[name], 0n));
  const components = {
    fresh: pico.fresh / picoPerNano,
    cache_write: pico.cache_write / picoPerNano,
    cache_read: pico.cache_read / picoPerNano,
    output: pico.output / picoPerNano,
  };
  let left = names.reduce((rest, name) => rest - components[name], total);
  const remainders = names.map((name) => ({ name, remainder: pico[name] % picoPerNano }));
  for (const { name } of remainders.sort((a, b) => Number(b.remainder - a.remainder))) {
    if (left === 0n) break;
    components[name] += 1n;
    left -= 1n;
  }
  return { total, components };
}

/** What a request is known by before it is sent. */
type Facts = Pick<RequestFacts, 'textBytes' | 'parts' | 'images' | 'fileBytes' | 'answers'>;
type Sold = Pick<Model, 'price' | 'contextWindow' | 'family'>;

/** What stands around messages, parts and tools in a model's template, in tokens. */
const tokensAPart = 64;
const tokensARequest = 256;
/**
 * The most tokens of one image, as the families count them: tiles of 768 x 768 pixels at 258 tokens (google), pixels
 * / 750 (anthropic), tiles of 512 x 512 at up to 5667 tokens and a base of 2833 (openai's small models).
 */
const tokensAnImage: Readonly<Record<string, number>> = { anthropic: 8192, google: 8192, mistral: 8192 };
const mostTokensAnImage = 49_152;

/**
 * The most input tokens of a request. No tokenizer of bytes makes more tokens than there are bytes; files are compressed,
 * so that only the window bounds them. A list of prompts fills a window each, and counts as that many answers.
 */
export function inputBound({ contextWindow, family }: Omit<Sold, 'price'>, facts: Facts): bigint {
  const windows = count(contextWindow) * BigInt(Math.max(1, facts.answers));
  if (facts.fileBytes > 0) return windows;
  const text = facts.textBytes + tokensAPart * facts.parts + tokensARequest;
  const tokens = count(text + facts.images * (tokensAnImage[family] ?? mostTokensAnImage));
  return tokens < windows ? tokens : windows;
}

/**
 * The most that a request can cost, in nanodollars: every input token at the dearest rate it may come to, every answer
 * as long as it may be.
 * @param maxTokens of one answer
 */
export function bound({ model, facts, maxTokens }: { model: Sold; facts: Facts; maxTokens: number }): bigint {
  const { price } = model;
  const input = inputBound(model, facts);
  const rates = [price];
  if (price.longContext && input > BigInt(price.longContext.over)) rates.push(price.longContext.price);
  const dearest = largest(
    rates.flatMap(({ input: fresh, cacheWrite, cacheWrite1h, cacheRead }) => [
      fresh,
      cacheWrite,
      cacheWrite1h,
      cacheRead,
    ]),
  );
  const output = count(maxTokens) * BigInt(Math.max(1, facts.answers));
  return roundedUp(input * dearest + output * largest(rates.map((rate) => rate.output)));
}

/**
 * The tokens of an answer for which there probably is room behind the prompt, at two bytes a token; an eighth of the
 * window where there is not.
 */
export function roomFor({ contextWindow }: Omit<Sold, 'price'>, facts: Facts): number {
  const prompt = Math.ceil(facts.textBytes / 2) + 16 * (facts.parts + 2);
  return Math.max(contextWindow - prompt, Math.ceil(contextWindow / 8));
}

/** What a request probably costs at the least, in nanodollars: its text at four bytes a token, and no answer. */
export function estimate({ model, facts }: { model: Sold; facts: Facts }): bigint {
  const tokens = count(facts.textBytes / 4);
  const most = inputBound(model, facts);
  return roundedUp((tokens < most ? tokens : most) * model.price.input);
}

const largest = (amounts: readonly bigint[]): bigint =>
  amounts.reduce((most, amount) => (amount > most ? amount : most), 0n);
