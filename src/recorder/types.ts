import type { RackId } from '../tracing/index.ts';

/** Recorded content: `none`; `metadata`: sizes and attributes; `full`: the texts themselves. */
export type ContentLevel = 'none' | 'metadata' | 'full';

/** Retention limits of a rack's history. The oldest events are deleted first. */
export interface Retention {
  readonly days: number;
  readonly bytes: number;
  readonly events: number;
}

export interface Policy {
  readonly content: ContentLevel;
  readonly retention: Retention;
  /** RE2 expressions, or names of built-in pattern sets (`@name`). Matches are never stored. */
  readonly redact: readonly string[];
}

export const defaultPolicy: Policy = {
  content: 'metadata',
  retention: { days: 7, bytes: 64 * 1024 * 1024, events: 100_000 },
  redact: ['@credentials'],
};

export interface Rack {
  readonly id: RackId;
  readonly armed: boolean;
  readonly policy: Policy;
  readonly changed_at: string | null;
  readonly changed_by: string | null;
  readonly events: number;
  readonly bytes: number;
  readonly oldest: string | null;
  readonly newest: string | null;
}

export type Verb = 'read' | 'write';

export interface Grant {
  readonly id: string;
  readonly rack: RackId;
  readonly verbs: readonly Verb[];
  /**
   * Grantee. `bearer`: the holder of the host's bearer token. `peer:<name>`: the peer that had this name at the time of
   * the grant.
   */
  readonly to: string;
  /** Whether events recorded before the grant can be read. */
  readonly includes_past: boolean;
  readonly granted_at: string;
  readonly granted_by: string;
  readonly expires_at: string;
  readonly revoked_at: string | null;
}

/** Position in a rack's history. */
export interface HistoryPosition {
  /** Number of the history file. A purge starts the next one. */
  readonly generation: number;
  readonly seq: number;
}

/** The peer that has a name now. A peer that is minted again under the same name is another peer. */
export interface PeerIdentity {
  readonly id: string;
  readonly minted_at: string;
}

/** A write token without its secret. */
export interface WriteToken {
  readonly id: string;
  readonly rack: RackId;
  /** Id of the grant with the verb `write` that authorizes the token. The token is valid as long as the grant. */
  readonly grant: string;
  readonly label: string | null;
  readonly minted_at: string;
  readonly expires_at: string;
  readonly revoked_at: string | null;
}

/** An event before it is stored. */
export interface NewEvent {
  /** Id, unique in its rack. */
  readonly id: string;
  readonly at: string;
  /**
   * `message`, `reasoning`, `tool_call`, `tool_result`, `completion`, `task`, `run`, `step`, `request`, or a client's
   * own kind.
   */
  readonly kind: string;
  /** Id of the completion, task, run or session that the event belongs to. */
  readonly subject?: string | undefined;
  readonly role?: string | undefined;
  readonly model?: string | undefined;
  readonly content?: string | undefined;
  /** Metadata: numbers and short texts. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined;
}

/** Summary of a purged history. */
export interface Tombstone {
  readonly id: string;
  readonly rack: RackId;
  readonly at: string;
  readonly by: string;
  readonly events: number;
  readonly bytes: number;
  readonly from: string | null;
  readonly to: string | null;
}

export interface ReviewEntry {
  readonly seq: number;
  readonly at: string;
  readonly by: string;
  readonly act:
    | 'arm'
    | 'disarm'
    | 'policy'
    | 'grant'
    | 'grant_revoked'
    | 'token'
    | 'token_revoked'
    | 'read'
    | 'ingest'
    | 'refused'
    | 'purge'
    | 'expired';
  readonly rack: RackId | null;
  /** Counts, and values before and after the action; never content of a history. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface RecorderEnvelope {
  readonly contract: 1;
  readonly noun: 'rack' | 'grant' | 'review' | 'ingest';
  readonly data: unknown;
  readonly as_of: string;
  readonly warnings: readonly string[];
}
