import { timingSafeEqual } from 'node:crypto';
import { secretHash } from '../../signing/secret.ts';
import { invalidApiKey } from '../errors.ts';
import type { KeyRow, Ledger } from '../ledger/types.ts';
import { expiringCache } from './expiring-cache.ts';
import type { Authenticator, Caller } from './types.ts';

export interface AuthenticatorOptions {
  readonly ledger: Pick<Ledger, 'findKey'>;
  readonly now?: () => Date;
  readonly monotonic?: () => number;
}

/** Cache time of valid keys, in ms. Paid requests are checked again by the ledger, all others by `confirm`. */
const keyLife = 5000;
const mostKeys = 10_000;
/**
 * Cache time of unknown keys, in ms: short, so that a new key soon works. Their cache is separate, so that a flood of
 * unknown keys evicts no valid key.
 */
const nobodyLife = 1000;
const mostNobodies = 5000;

/** Format of a gateway key. Other texts are not looked up, so the secrets of other services are never hashed here. */
const shape = 'lathe_gateway_[A-Za-z0-9_-]{43}';
const plain = new RegExp(`^${shape}$`);
const bearer = new RegExp(`^[Bb][Ee][Aa][Rr][Ee][Rr] +(${shape})$`);

/** A cached lookup: the full hash of a secret, and its key; `row` is undefined for an unknown or revoked key. */
interface Found {
  readonly hash: string;
  readonly row: KeyRow | undefined;
}

/**
 * Authenticates callers by their API keys. An unknown, a revoked and an expired key take the same path and get the same
 * error, so that callers cannot tell them apart.
 */
export function openAuthenticator({
  ledger,
  now = () => new Date(),
  monotonic = () => performance.now(),
}: AuthenticatorOptions): Authenticator {
  const keys = expiringCache<Found>(mostKeys, keyLife, monotonic);
  const nobodies = expiringCache<Found>(mostNobodies, nobodyLife, monotonic);
  const looking = new Map<string, Promise<Found>>();

  async function look(hash: string): Promise<Found> {
    const row = await ledger.findKey(hash);
    const found = { hash, row: row?.revokedAt === undefined ? row : undefined };
    (found.row === undefined ? nobodies : keys).set(slotOf(hash), found);
    if (found.row === undefined) keys.delete(slotOf(hash));
    return found;
  }

  async function find(secret: string, isFresh: boolean): Promise<KeyRow | undefined> {
    const hash = secretHash(secret);
    const slot = slotOf(hash);
    // Unknown keys are cached even for fresh lookups: a flood of invented keys does not reach the ledger.
    const known = (isFresh ? undefined : keys.get(slot)) ?? nobodies.get(slot);
    if (known !== undefined && isSame(known.hash, hash)) return known.row;
    // A running lookup is not shared: it may have read the key before it was revoked.
    if (isFresh) return (await look(hash)).row;
    // Concurrent lookups of one key share one query.
    let asked = looking.get(hash);
    if (asked === undefined) {
      asked = look(hash).finally(() => looking.delete(hash));
      looking.set(hash, asked);
    }
    return (await asked).row;
  }

  async function callerOf(header: (name: string) => string | undefined, isFresh: boolean): Promise<Caller> {
    for (const secret of offered(header)) {
      const key = await find(secret, isFresh);
      // Expiry is checked for every request, also for cached keys.
      if (key !== undefined && isRunning(key, now())) return { accountId: key.accountId, key };
    }
    throw invalidApiKey();
  }

  return {
    authenticate: (header) => callerOf(header, false),
    confirm: (header) => callerOf(header, true),
  };
}

/** Reads keys in the order of precedence. Values of another format, such as a host's bearer token, are skipped. */
function offered(header: (name: string) => string | undefined): string[] {
  const secrets = [
    bearer.exec(header('authorization') ?? '')?.[1],
    plain.exec(header('x-api-key') ?? '')?.[0],
    plain.exec(header('api-key') ?? '')?.[0],
  ];
  return [...new Set(secrets.filter((secret) => secret !== undefined))];
}

/** Cache key of a hash. The full hash is then compared in constant time. */
const slotOf = (hash: string): string => hash.slice(0, 16);

const isSame = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

const isRunning = ({ expiresAt }: KeyRow, now: Date): boolean =>
  expiresAt === undefined || Date.parse(expiresAt) > now.getTime();
