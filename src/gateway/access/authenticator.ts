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

/** How long a key counts after it was looked up, in ms. What is paid for the ledger checks; all else is confirmed with it. */
const keyLife = 5000;
const mostKeys = 10_000;
/** Of secrets that are nobody's: short, so that a new key works at once, and apart, so that a flood of them moves out no key. */
const nobodyLife = 1000;
const mostNobodies = 5000;

/** What a gateway key looks like: nothing else is looked up, so another service's secret never gets here. */
const shape = 'lathe_gateway_[A-Za-z0-9_-]{43}';
const plain = new RegExp(`^${shape}$`);
const bearer = new RegExp(`^[Bb][Ee][Aa][Rr][Ee][Rr] +(${shape})$`);

/** A key and the whole hash of its secret; `row` is undefined where it lets nobody in. */
interface Found {
  readonly hash: string;
  readonly row: KeyRow | undefined;
}

/**
 * Knows callers by their keys. Why one is refused shows in nothing: an unknown, a revoked and an expired key take the same
 * path and get the same words.
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
    // Whoever is nobody stays so: a flood of made-up keys does not reach the ledger.
    const known = (isFresh ? undefined : keys.get(slot)) ?? nobodies.get(slot);
    if (known !== undefined && isSame(known.hash, hash)) return known.row;
    // A question that was asked before may have been answered before the key was revoked.
    if (isFresh) return (await look(hash)).row;
    // Many requests of one key at once are one question.
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
      // The clock decides each time: a key that is remembered runs out all the same.
      if (key !== undefined && isRunning(key, now())) return { accountId: key.accountId, key };
    }
    throw invalidApiKey();
  }

  return {
    authenticate: (header) => callerOf(header, false),
    confirm: (header) => callerOf(header, true),
  };
}

/** In the order in which the headers count. A host's own bearer may stand beside the key, so one that does not fit is passed by. */
function offered(header: (name: string) => string | undefined): string[] {
  const secrets = [
    bearer.exec(header('authorization') ?? '')?.[1],
    plain.exec(header('x-api-key') ?? '')?.[0],
    plain.exec(header('api-key') ?? '')?.[0],
  ];
  return [...new Set(secrets.filter((secret) => secret !== undefined))];
}

/** Only finds the place: whether it is the key, the whole hash says, in a time that tells nothing. */
const slotOf = (hash: string): string => hash.slice(0, 16);

const isSame = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

const isRunning = ({ expiresAt }: KeyRow, now: Date): boolean =>
  expiresAt === undefined || Date.parse(expiresAt) > now.getTime();
