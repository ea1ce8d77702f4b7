/** A provider credential of an account. The envelope's columns are base64. Replacing a credential creates a new record. */
interface CredentialsTable {
  /** `c_` and 16 hex digits. */
  id: string;
  account_id: string;
  /** A provider id of the configuration, or `kind:slug`. Unique within an account. */
  provider: string;
  /** `verified`: accepted by the provider. `registered`: added on the command line, with any base URL. */
  mode: 'verified' | 'registered';
  status: 'active' | 'rejected';
  base_url: string | null;
  /** The last four characters of the key; empty for keys that are too short to show them. */
  last4: string;
  created_at: string;
  /** The envelope (`envelope.ts`). For an endpoint without a key: `none`, and the other columns are empty. */
  alg: 'A256GCM' | 'none';
  /** Id of the master key. */
  kek_id: string;
  wrapped_key: string;
  iv: string;
  tag: string;
  ciphertext: string;
}

export type AccessTables = { gateway_credentials: CredentialsTable };

export type CredentialRow = CredentialsTable;

/**
 * Columns of `gateway_rate`: the buckets of a key's requests and tokens. `full_at`, `tokens_full_at`: when they are full again,
 * in microseconds since 1970.
 */
export const rateColumns = { key_id: 'text', full_at: 'integer', tokens_full_at: 'integer' } as const;

/** Columns of `gateway_running`: running requests of a key on one gateway, valid until `expires_at` (ms since 1970). */
export const runningColumns = {
  key_id: 'text',
  replica_id: 'text',
  running: 'integer',
  expires_at: 'integer',
} as const;
