import type { TraceSink, RackId } from '../tracing/index.ts';
import type { Transcripts } from '../observe/types.ts';
import type { Grant, NewEvent, Policy, Rack, ReviewEntry, Tombstone, Verb, WriteToken } from './types.ts';

export interface RackChange {
  readonly armed?: boolean | undefined;
  readonly policy?:
    | {
        readonly content?: Policy['content'] | undefined;
        readonly retention?:
          | { readonly [Bound in keyof Policy['retention']]?: number | undefined }
          | undefined;
        readonly redact?: Policy['redact'] | undefined;
      }
    | undefined;
}

/**
 * Interface of the recorder for the planes, the command line and the observe plane. `by` is as `acts.by` in
 * src/store/schema.ts.
 */
export interface RecorderService {
  /** Records the spans of the host's own planes in armed racks. */
  readonly sink: TraceSink;
  /** Source of the surface `transcript`. */
  readonly transcripts: Transcripts;

  racks(): Promise<Rack[]>;
  /** @throws RecorderError not_found */
  rack(id: string): Promise<Rack>;
  /**
   * Changes a rack. Absent members, also within `policy` and `retention`, keep their values. Tighter retention limits
   * apply at once.
   * @throws RecorderError not_found; invalid, with all violations
   */
  change(id: string, change: RackChange, by: string): Promise<Rack>;

  /** Lists grants and write tokens, newest first, including expired and revoked ones. */
  grants(
    rack?: string,
  ): Promise<{ readonly grants: readonly Grant[]; readonly tokens: readonly WriteToken[] }>;
  /** @throws RecorderError invalid, not_found */
  grant(
    request: {
      readonly rack: string;
      readonly verbs: readonly Verb[];
      readonly expiresAt: Date;
      readonly to: string;
      /** Whether events recorded before the grant can be read. Default: false. */
      readonly includesPast?: boolean | undefined;
    },
    by: string,
  ): Promise<Grant>;
  /** Revokes a grant and its write tokens. @throws RecorderError not_found */
  revokeGrant(id: string, by: string): Promise<Grant>;
  /** Revokes all grants to a peer that was removed. */
  revokeGrantsTo(to: string, by: string): Promise<Grant[]>;
  /**
   * Creates a write token. Only this response has the secret.
   * @throws RecorderError conflict, if no grant allows writing
   */
  mintToken(
    request: {
      readonly rack: string;
      readonly expiresAt?: Date | undefined;
      readonly label?: string | undefined;
      /** Use a grant to `bearer` or `peer:NAME`. Default: the grant that expires last. */
      readonly to?: string | undefined;
    },
    by: string,
  ): Promise<WriteToken & { readonly token: string }>;
  /** @throws RecorderError not_found */
  revokeToken(id: string, by: string): Promise<WriteToken>;

  /** Lists review entries with `seq` greater than `after`, oldest first. */
  review(options: {
    readonly rack?: string | undefined;
    readonly after?: number | undefined;
    readonly limit: number;
  }): Promise<{ readonly entries: readonly ReviewEntry[]; readonly next: number | null }>;

  /**
   * Stores events. They are on disk when it resolves. Events whose id the rack already has are counted as duplicates.
   * @throws RecorderError unauthorized (the token), conflict `rack_disarmed` or `redaction_too_slow`, too_many, invalid
   */
  ingest(
    token: string | null,
    events: readonly NewEvent[],
    by: string,
  ): Promise<{
    readonly rack: RackId;
    readonly accepted: number;
    readonly duplicates: number;
    /** Number of redacted matches. */
    readonly redacted: number;
  }>;

  /**
   * Deletes the whole history of a rack from the data directory and verifies that it is gone.
   * @throws RecorderError not_found
   */
  purge(id: string, by: string): Promise<Tombstone & { readonly verified: true }>;

  /** Applies all retention limits now. Also runs once a minute. */
  sweep(): Promise<void>;
  /** Stores captured events, then closes. */
  close(): Promise<void>;
}
