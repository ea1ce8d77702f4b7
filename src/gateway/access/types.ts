import type { z } from 'zod';
import type { Candidate, Model } from '../catalog/types.ts';
import type { Permit } from './limits.ts';
import type { ReceiptReason } from '../../wires/core/types.ts';
import type { KeyRow } from '../ledger/types.ts';
import type { storedCredentialSchema } from './credential-body.ts';

/** An authenticated caller. */
export interface Caller {
  readonly accountId: string;
  readonly key: KeyRow;
}

export interface Authenticator {
  /** Authenticates by the first valid key in `authorization`, `x-api-key` or `api-key`. @throws WireError 401 */
  authenticate(header: (name: string) => string | undefined): Promise<Caller>;
  /** Same, but reads the key from the ledger if it was not read within the last second. */
  recheck(header: (name: string) => string | undefined): Promise<Caller>;
  /** Same, but reads the key from the ledger, not from the cache. For requests whose key the ledger does not check itself. */
  confirm(header: (name: string) => string | undefined): Promise<Caller>;
}

/** Limits the concurrent requests of a key, and its requests and tokens per minute. */
export interface Limiter {
  /**
   * @param estimatedTokens until the permit is told how many tokens the request used
   * @throws WireError 429 `rate_limit_exceeded` with `Retry-After: 1`
   */
  acquire(caller: Caller, estimatedTokens?: number): Promise<Permit>;
}

/** A caller's own credential for a provider. */
export interface ByokCredential {
  readonly provider: string;
  /** Empty for a registered endpoint that needs no key. */
  readonly apiKey: string;
  /** URL of a cloud resource, without `basePath`, or of a registered endpoint. */
  readonly baseUrl: string | undefined;
}

export interface CredentialStore {
  list(accountId: string): Promise<z.infer<typeof storedCredentialSchema>[]>;
  /** Verifies the credential with the provider, then stores it. @throws WireError 422 if it is rejected; nothing is stored */
  put(accountId: string, provider: string, body: unknown): Promise<void>;
  /** @returns whether a credential was removed */
  remove(accountId: string, provider: string): Promise<boolean>;
  /**
   * Marks a credential as rejected by its provider.
   * @param apiKey the rejected key: a key that was stored in the meantime is not marked
   */
  markRejected(accountId: string, provider: string, apiKey?: string): Promise<void>;
  /** Finds the decrypted credential; cached for a few seconds. */
  find(accountId: string, provider: string): Promise<ByokCredential | undefined>;
}

/** A requested name and the candidates that may serve it, in order of preference. */
export interface Resolution {
  readonly requested: string;
  readonly model: Model;
  readonly candidates: readonly Candidate[];
  /** Receipt reason of the first candidate. That of a later one is `provider_failover`. */
  readonly reason: ReceiptReason;
}
