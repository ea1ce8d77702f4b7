import type { Nano } from './types.ts';

const decimals = 9;
const nanoPerDollar = 10n ** BigInt(decimals);

/** Parses decimal text in US dollars to nanodollars, exactly. @throws RangeError with a message for the user */
export function parseNanodollars(text: string): Nano {
  const [, sign, whole, fraction = ''] = /^([+-]?)\$?(\d{1,10})(?:\.(\d{1,30}))?$/.exec(text) ?? [];
  if (whole === undefined)
    throw new RangeError(`expected US dollars as decimal text, such as 5 or 0.25, got '${text}'`);
  if (/[1-9]/.test(fraction.slice(decimals)))
    throw new RangeError(`must have at most ${decimals} decimals (a nanodollar), got '${text}'`);
  const nano = BigInt(whole) * nanoPerDollar + BigInt(fraction.slice(0, decimals).padEnd(decimals, '0'));
  return sign === '-' ? -nano : nano;
}

/** Formats an amount as decimal text with all nine decimals: `5.000000000`. */
export function toUsd(nano: Nano): string {
  const digits = String(nano < 0n ? -nano : nano).padStart(decimals + 1, '0');
  return `${nano < 0n ? '-' : ''}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** Formats an amount in full, with at least the cents: `$5.00`, `-$0.000000001`. */
export const formatDollars = (nano: Nano): string =>
  toUsd(nano)
    .replace(/0{1,7}$/, '')
    .replace(/^-?/, '$&$$');
