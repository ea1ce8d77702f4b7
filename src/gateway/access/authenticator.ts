import { timingSafeEqual } from 'node:crypto';
import { hashSecret } from '../../signing/secret.ts';
import { invalidApiKey } from '../errors.ts';
import type { KeyRow, Ledger } from '../ledger/types.ts';
import { createExpiringCache } from './expiring-cache.ts';
import type { Authenticator, Caller } from './types.ts';

export interface AuthenticatorOptions {
  readonly ledger: Pick<Ledger, 'findKey'>;
  readonly now?: () => Date;
  readonly monotonicMs?: () => number;
}

/** Cache time of valid keys, in ms. Paid requests are checked again by the ledger, all others by `confirm`. */
const keyTtlMs = 5000;
/** How often a key whose requests are refused is read again, in ms: a raised limit takes effect after this time. */
const recheckMs = 1000;
const maxKeys = 10_000;
/**
 * Cache time of unknown keys, in ms: short, so that a new key soon works. Their cache is separate, so that a flood of
 * unknown keys evicts no valid key.
 */
const unknownKeyTtlMs = 1000;
const maxUnknownKeys = 5000;

/** Format of a gateway key. Other texts are not looked up, so the secrets of other services are never hashed here. */
const keyPattern = 'lathe_gateway_[A-Za-z0-9_-]{43}';
const keyRegex = new RegExp(`^${keyPattern}$`);
const bearerRegex = new RegExp(`^[Bb][Ee][Aa][Rr][Ee][Rr] +(${keyPattern})$`);

/** A cached lookup: the full hash of a secret, and its key; `row` is undefined for an unknown, revoked or disabled key. */
interface CachedLookup {
  readonly hash: string;
  readonly row: KeyRow | undefined;
  /** When it was read, by `monotonicMs`. */
  readonly readAtMs: number;
}

/**
 * Authenticates callers by their API keys. An unknown, a revoked, a disabled and an expired key take the same path and get the same
 * error, so that callers cannot tell them apart.
 */
export function createAuthenticator({
  ledger,
  now = () => new Date(),
  monotonicMs = () => performance.now(),
}: AuthenticatorOptions): Authenticator {
  const keys = createExpiringCache<CachedLookup>(maxKeys, keyTtlMs, monotonicMs);
  const unknownKeys = createExpiringCache<CachedLookup>(maxUnknownKeys, unknownKeyTtlMs, monotonicMs);
  const runningLookups = new Map<string, Promise<CachedLookup>>();

  async function lookUp(hash: string): Promise<CachedLookup> {
    const readAtMs = monotonicMs();
    const row = await ledger.findKey(hash);
    const isUsable = row?.revokedAt === undefined && row?.disabledAt === undefined;
    const found = { hash, row: isUsable ? row : undefined, readAtMs };
    (found.row === undefined ? unknownKeys : keys).set(cacheKeyOf(hash), found);
    if (found.row === undefined) keys.delete(cacheKeyOf(hash));
    return found;
  }

  /** @param maxAgeMs age of a cached valid key that is used; 0: the key is read */
  async function findKey(secret: string, maxAgeMs: number): Promise<KeyRow | undefined> {
    const hash = hashSecret(secret);
    const cacheKey = cacheKeyOf(hash);
    // Unknown keys are cached even for fresh lookups: a flood of invented keys does not reach the ledger.
    const cached = keys.get(cacheKey);
    const isYoung = cached !== undefined && monotonicMs() - cached.readAtMs < maxAgeMs;
    const known = isYoung ? cached : unknownKeys.get(cacheKey);
    if (known !== undefined && isEqualConstantTime(known.hash, hash)) return known.row;
    // A running lookup is not shared: it may have read the key before it was revoked.
    if (maxAgeMs === 0) return (await lookUp(hash)).row;
    // Concurrent lookups of one key share one query.
    let lookup = runningLookups.get(hash);
    if (lookup === undefined) {
      lookup = lookUp(hash).finally(() => runningLookups.delete(hash));
      runningLookups.set(hash, lookup);
    }
    return (await lookup).row;
  }

  async function authenticateBy(
    header: (name: string) => string | undefined,
    maxAgeMs: number,
  ): Promise<Caller> {
    for (const secret of offeredKeys(header)) {
      const key = await findKey(secret, maxAgeMs);
      // Expiry is checked for every request, also for cached keys.
      if (key !== undefined && isUnexpired(key, now())) return { accountId: key.accountId, key };
    }
    throw invalidApiKey();
  }

  return {
    authenticate: (header) => authenticateBy(header, keyTtlMs),
    recheck: (header) => authenticateBy(header, recheckMs),
    confirm: (header) => authenticateBy(header, 0),
  };
}

/** Reads keys in the order of precedence. Values of another format, such as a host's bearer token, are skipped. */
function offeredKeys(header: (name: string) => string | undefined): string[] {
  const secrets = [
    bearerRegex.exec(header('authorization') ?? '')?.[1],
    keyRegex.exec(header('x-api-key') ?? '')?.[0],
    keyRegex.exec(header('api-key') ?? '')?.[0],
  ];
  return [...new Set(secrets.filter((secret) => secret !== undefined))];
}

/** Cache key of a hash. The full hash is then compared in constant time. */
const cacheKeyOf = (hash: string): string => hash.slice(0, 16);

const isEqualConstantTime = (a: string, b: string): boolean =>
  timingSafeEqual(Buffer.from(a), Buffer.from(b));

const isUnexpired = ({ expiresAt }: KeyRow, now: Date): boolean =>
  expiresAt === undefined || Date.parse(expiresAt) > now.getTime();
