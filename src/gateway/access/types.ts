import type { z } from 'zod';
import type { Candidate, Model } from '../catalog/types.ts';
import type { ReceiptReason } from '../../wires/core/types.ts';
import type { KeyRow } from '../ledger/types.ts';
import type { storedCredential } from './credential-body.ts';

/** Who asks. */
export interface Caller {
  readonly accountId: string;
  readonly key: KeyRow;
}

export interface Authenticator {
  /** By `authorization`, `x-api-key` or `api-key`: the first of them that fits. @throws WireError 401, always the same */
  authenticate(header: (name: string) => string | undefined): Promise<Caller>;
  /** The same, asking the ledger whether the key was revoked since it was looked up. For what the ledger does not check itself. */
  confirm(header: (name: string) => string | undefined): Promise<Caller>;
}

/** Lets a key's requests in: so many at a time, so many a minute. */
export interface Limiter {
  /** @throws WireError 429 `rate_limit_exceeded` with `Retry-After: 1` */
  enter(caller: Caller): Promise<{ readonly leave: () => void }>;
}

/** A provider's credential of the caller's own. */
export interface OwnCredential {
  readonly provider: string;
  /** Empty: a registered endpoint that wants none. */
  readonly apiKey: string;
  /** Of a cloud resource, without `basePath`, or of a registered endpoint. */
  readonly baseUrl: string | undefined;
}

export interface CredentialStore {
  list(accountId: string): Promise<z.infer<typeof storedCredential>[]>;
  /** Asks the provider first; 422 and nothing stored where it refuses. @throws WireError */
  put(accountId: string, provider: string, body: unknown): Promise<void>;
  /** @returns whether there was one */
  remove(accountId: string, provider: string): Promise<boolean>;
  /**
   * The provider no longer takes it.
   * @param apiKey which it was: one that was stored since stays as it is
   */
  markRejected(accountId: string, provider: string, apiKey?: string): Promise<void>;
  /** For use; from memory where it can be. */
  find(accountId: string, provider: string): Promise<OwnCredential | undefined>;
}

/** A name resolved to what may serve it, best first. */
export interface Resolution {
  readonly requested: string;
  readonly model: Model;
  readonly candidates: readonly Candidate[];
  /** Of the first candidate; a later one is `provider_failover`. */
  readonly reason: ReceiptReason;
}
