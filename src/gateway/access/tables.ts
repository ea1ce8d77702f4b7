/** A provider's credential of an account; texts, those of the envelope base64. Replacing one makes a new record. */
interface Credentials {
  /** `c_` and 16 hex digits. */
  id: string;
  account_id: string;
  /** Of the configuration, or `kind:slug`. One of each for an account. */
  provider: string;
  /** `verified`: the provider was asked. `registered`: at the command line, with any base URL. */
  mode: 'verified' | 'registered';
  status: 'active' | 'rejected';
  base_url: string | null;
  /** Empty for keys that are too short to show a part of. */
  last4: string;
  created_at: string;
  /** The envelope (`envelope.ts`); `none`, and all of it empty, for an endpoint that wants no key. */
  alg: 'A256GCM' | 'none';
  /** Names the master key. */
  kek_id: string;
  wrapped_key: string;
  iv: string;
  tag: string;
  ciphertext: string;
}

export type AccessTables = { gateway_credentials: Credentials };

export type CredentialRow = Credentials;

/** Of `gateway_rate`: a key's bucket of requests. `full_at`: when it is full again, in microseconds since 1970. */
export const rateColumns = { key_id: 'text', full_at: 'integer' } as const;

/**
 * Of `gateway_running`: what a key has under way on a gateway; as good as nothing from `expires_at` on, in ms since 1970.
 */
export const runningColumns = {
  key_id: 'text',
  replica_id: 'text',
  running: 'integer',
  expires_at: 'integer',
} as const;
