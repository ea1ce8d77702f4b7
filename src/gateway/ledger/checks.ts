import { toStorableText } from '../store/index.ts';
import { LedgerError } from './errors.ts';
import type { Nano } from './types.ts';

/** Upper limit of one credit, of a key's cap and of a budget, in nanodollars: ten million dollars. */
export const maxCredit = 10n ** 16n;

export const invalid = (message: string): LedgerError => new LedgerError('invalid', message);

/** @returns the name as it is stored @throws LedgerError */
export function checkName(name: string): string {
  const cleanName = toStorableText(name.trim());
  if (cleanName === '' || cleanName.length > 200)
    throw invalid(`An account's name must have 1 to 200 characters, got ${cleanName.length}.`);
  // Names are printed to terminals.
  if (/\p{Cc}/u.test(cleanName))
    throw invalid(`An account's name must have no control characters, got ${JSON.stringify(cleanName)}.`);
  return cleanName;
}

/** @throws LedgerError */
export function checkCap(cap: Nano | null | undefined): void {
  if (cap !== undefined && cap !== null && (cap < 0n || cap > maxCredit))
    throw invalid(`A key's cap must be from 0 to ${maxCredit} nanodollars, got ${cap}.`);
}

/** @returns the time in the form in which it is stored @throws LedgerError */
export function checkExpiry(expiresAt: string): string {
  const expires = new Date(expiresAt);
  if (Number.isNaN(expires.getTime()))
    throw invalid(`A key's expiry must be a time such as 2027-01-31T00:00:00Z, got "${expiresAt}".`);
  return expires.toISOString();
}

/** Upper limits of keys' own limits, as in the configuration. */
export const maxKeyLimits = {
  concurrency: 100_000,
  requests_per_minute: 10_000_000,
  tokens_per_minute: 1e12,
};

/** @throws LedgerError */
export function checkLimit(name: string, value: number | null): void {
  const max = maxKeyLimits[name as keyof typeof maxKeyLimits];
  if (value !== null && !(Number.isInteger(value) && value >= 1 && value <= max))
    throw invalid(`A key's ${name} must be a whole number from 1 to ${max}, got ${value}.`);
}
