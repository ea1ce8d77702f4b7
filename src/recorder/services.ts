import type { Sink, RackId } from '../watch/index.ts';
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

/** What the recorder is to the planes, the command line and the observe plane. `by` as `acts.by` of src/store/schema.ts. */
export interface RecorderService {
  /** Keeps what the host's own planes say, where a rack is armed. */
  readonly sink: Sink;
  /** For the surface `transcript`. */
  readonly transcripts: Transcripts;

  racks(): Promise<Rack[]>;
  /** @throws RecorderError not_found */
  rack(id: string): Promise<Rack>;
  /**
   * What is absent stays; a retention or a policy is completed by what counts now. Bounds that got tighter count at once.
   * @throws RecorderError not_found; invalid, with all violations
   */
  change(id: string, change: RackChange, by: string): Promise<Rack>;

  /** Newest first; expired and revoked ones stay visible. */
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
      /** Also what the rack holds already. Default: what is recorded from now on. */
      readonly includesPast?: boolean | undefined;
    },
    by: string,
  ): Promise<Grant>;
  /** Its tokens end with it. @throws RecorderError not_found */
  revokeGrant(id: string, by: string): Promise<Grant>;
  /** All of them `to` somebody who is no more. */
  revokeGrantsTo(to: string, by: string): Promise<Grant[]>;
  /** The secret is in this answer and nowhere else. @throws RecorderError conflict, without a grant to write in force */
  mintToken(
    request: {
      readonly rack: string;
      readonly expiresAt?: Date | undefined;
      readonly label?: string | undefined;
      /** Under a grant to them: `bearer` or `peer:NAME`. Default: whichever lasts longest. */
      readonly to?: string | undefined;
    },
    by: string,
  ): Promise<WriteToken & { readonly token: string }>;
  /** @throws RecorderError not_found */
  revokeToken(id: string, by: string): Promise<WriteToken>;

  /** Oldest first, behind `after`. */
  review(options: {
    readonly rack?: string | undefined;
    readonly after?: number | undefined;
    readonly limit: number;
  }): Promise<{ readonly entries: readonly ReviewEntry[]; readonly next: number | null }>;

  /**
   * On the disk when it resolves. Events whose id the rack has already are counted and not stored again.
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
    /** Matches that were taken out. */
    readonly redacted: number;
  }>;

  /**
   * Removes the whole history of a rack from the data directory, and looks whether it is gone, before it resolves.
   * @throws RecorderError not_found
   */
  purge(id: string, by: string): Promise<Tombstone & { readonly verified: true }>;

  /** Applies all bounds now. Also done once a minute. */
  sweep(): Promise<void>;
  /** What was captured is stored before. */
  close(): Promise<void>;
}
