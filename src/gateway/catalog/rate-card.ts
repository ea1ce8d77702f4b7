/** Rate cards: prices as decimal text in US dollars per million tokens, and as exact integers for calculation. */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../../signing/canonical-json.ts';
import type { Price, Pricing } from './types.ts';

/** Prices as in `gateway.toml`. Missing cache prices default to the input price. */
export interface Rates {
  readonly in_usd_per_mtok: string;
  readonly out_usd_per_mtok: string;
  readonly cache_read_usd_per_mtok?: string | undefined;
  readonly cache_write_usd_per_mtok?: string | undefined;
  /** Default: `cache_write_usd_per_mtok`. */
  readonly cache_write_1h_usd_per_mtok?: string | undefined;
}

export interface RateCard extends Rates {
  /** Replaces these prices for a request whose total input has more than `over` tokens. */
  readonly long_context?: (Rates & { readonly over: number }) | undefined;
}

/** Decimal places of a price: 1 USD per million tokens is 10^6 picodollars per token. */
const priceDecimals = 6;

/** Upper limit of a price, far above real ones. A full context window at this price still fits an account balance. */
const maxDollars = 100_000;

/** @returns picodollars per token, or a message that says why the text is not a price */
export function parsePicodollars(text: string): bigint | string {
  if (text.startsWith('-')) return 'must not be negative';
  if (/^\d*\.?\d+e[+-]?\d+$/i.test(text)) return 'must be written out, without an exponent, as "0.075"';
  const [, dollars, fraction = ''] = /^(\d{1,15})(?:\.(\d{1,30}))?$/.exec(text) ?? [];
  if (dollars === undefined) return 'expected US dollars a million tokens as decimal text, as "0.075"';
  if (Number(dollars) > maxDollars || (Number(dollars) === maxDollars && /[1-9]/.test(fraction)))
    return `must be at most ${maxDollars} US dollars a million tokens`;
  if (/[1-9]/.test(fraction.slice(priceDecimals)))
    return `must have at most ${priceDecimals} decimals: the smallest price is one picodollar per token, "0.000001"`;
  return BigInt(dollars + fraction.slice(0, priceDecimals).padEnd(priceDecimals, '0'));
}

/** Formats picodollars per token as the shortest decimal text, such as `0.075`. */
export function formatUsdPerMtok(pico: bigint): string {
  const digits = String(pico).padStart(priceDecimals + 1, '0');
  const fraction = digits.slice(-priceDecimals).replace(/0+$/, '');
  return digits.slice(0, -priceDecimals) + (fraction === '' ? '' : `.${fraction}`);
}

/** Converts a rate card that `parsePicodollars` has accepted. @throws RangeError for a malformed price */
export function priceOf(card: RateCard): { readonly price: Price; readonly pricing: Pricing } {
  const rates = parseRates(card);
  const longContext = card.long_context && {
    over: card.long_context.over,
    rates: parseRates(card.long_context),
  };
  const identity = `sha256:${createHash('sha256')
    .update(
      canonicalJson({
        ...toDecimalRates(rates),
        ...(longContext && {
          long_context: { over: longContext.over, ...toDecimalRates(longContext.rates) },
        }),
      }),
    )
    .digest('hex')}`;
  const { cache_write_1h_usd_per_mtok: _, ...pricing } = toDecimalRates(rates);
  return {
    price: {
      ...rates,
      ...(longContext && {
        longContext: { over: longContext.over, price: { ...longContext.rates, identity } },
      }),
      identity,
    },
    pricing,
  };
}

/** The rate card of models that are free of charge. */
export const freeRateCard = priceOf({ in_usd_per_mtok: '0', out_usd_per_mtok: '0' });

function parseRates(rates: Rates) {
  const input = parsePrice(rates.in_usd_per_mtok);
  const cacheWrite = parsePrice(rates.cache_write_usd_per_mtok) ?? input;
  return {
    input: input ?? 0n,
    output: parsePrice(rates.out_usd_per_mtok) ?? 0n,
    cacheRead: parsePrice(rates.cache_read_usd_per_mtok) ?? input ?? 0n,
    cacheWrite: cacheWrite ?? 0n,
    cacheWrite1h: parsePrice(rates.cache_write_1h_usd_per_mtok) ?? cacheWrite ?? 0n,
  };
}

function parsePrice(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const pico = parsePicodollars(text);
  if (typeof pico === 'string') throw new RangeError(`the price '${text}' ${pico}`);
  return pico;
}

function toDecimalRates(rates: ReturnType<typeof parseRates>) {
  return {
    in_usd_per_mtok: formatUsdPerMtok(rates.input),
    out_usd_per_mtok: formatUsdPerMtok(rates.output),
    cache_read_usd_per_mtok: formatUsdPerMtok(rates.cacheRead),
    cache_write_usd_per_mtok: formatUsdPerMtok(rates.cacheWrite),
    cache_write_1h_usd_per_mtok: formatUsdPerMtok(rates.cacheWrite1h),
  };
}
