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
const decimals = 6;

/** Upper limit of a price, far above real ones. A full context window at this price still fits an account balance. */
const mostDollars = 100_000;

/** @returns picodollars per token, or a message that says why the text is not a price */
export function picodollars(text: string): bigint | string {
  if (text.startsWith('-')) return 'must not be negative';
  if (/^\d*\.?\d+e[+-]?\d+$/i.test(text)) return 'must be written out, without an exponent, as "0.075"';
  const [, dollars, fraction = ''] = /^(\d{1,15})(?:\.(\d{1,30}))?$/.exec(text) ?? [];
  if (dollars === undefined) return 'expected US dollars a million tokens as decimal text, as "0.075"';
  if (Number(dollars) > mostDollars || (Number(dollars) === mostDollars && /[1-9]/.test(fraction)))
    return `must be at most ${mostDollars} US dollars a million tokens`;
  if (/[1-9]/.test(fraction.slice(decimals)))
    return `must have at most ${decimals} decimals: the smallest price is one picodollar per token, "0.000001"`;
  return BigInt(dollars + fraction.slice(0, decimals).padEnd(decimals, '0'));
}

/** Formats picodollars per token as the shortest decimal text, such as `0.075`. */
export function usdPerMtok(pico: bigint): string {
  const digits = String(pico).padStart(decimals + 1, '0');
  const fraction = digits.slice(-decimals).replace(/0+$/, '');
  return digits.slice(0, -decimals) + (fraction === '' ? '' : `.${fraction}`);
}

/** Converts a rate card that `parsePicodollars` has accepted. @throws RangeError for a malformed price */
export function priceOf(card: RateCard): { readonly price: Price; readonly pricing: Pricing } {
  const rates = ratesOf(card);
  const long = card.long_context && { over: card.long_context.over, rates: ratesOf(card.long_context) };
  const identity = `sha256:${createHash('sha256')
    .update(
      canonicalJson({
        ...shown(rates),
        ...(long && { long_context: { over: long.over, ...shown(long.rates) } }),
      }),
    )
    .digest('hex')}`;
  const { cache_write_1h_usd_per_mtok: _, ...pricing } = shown(rates);
  return {
    price: {
      ...rates,
      ...(long && { longContext: { over: long.over, price: { ...long.rates, identity } } }),
      identity,
    },
    pricing,
  };
}

/** The rate card of models that are free of charge. */
export const free = priceOf({ in_usd_per_mtok: '0', out_usd_per_mtok: '0' });

function ratesOf(rates: Rates) {
  const input = exact(rates.in_usd_per_mtok);
  const cacheWrite = exact(rates.cache_write_usd_per_mtok) ?? input;
  return {
    input: input ?? 0n,
    output: exact(rates.out_usd_per_mtok) ?? 0n,
    cacheRead: exact(rates.cache_read_usd_per_mtok) ?? input ?? 0n,
    cacheWrite: cacheWrite ?? 0n,
    cacheWrite1h: exact(rates.cache_write_1h_usd_per_mtok) ?? cacheWrite ?? 0n,
  };
}

function exact(text: string | undefined): bigint | undefined {
  if (text === undefined) return undefined;
  const pico = picodollars(text);
  if (typeof pico === 'string') throw new RangeError(`the price '${text}' ${pico}`);
  return pico;
}

function shown(rates: ReturnType<typeof ratesOf>) {
  return {
    in_usd_per_mtok: usdPerMtok(rates.input),
    out_usd_per_mtok: usdPerMtok(rates.output),
    cache_read_usd_per_mtok: usdPerMtok(rates.cacheRead),
    cache_write_usd_per_mtok: usdPerMtok(rates.cacheWrite),
    cache_write_1h_usd_per_mtok: usdPerMtok(rates.cacheWrite1h),
  };
}
