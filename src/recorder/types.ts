import type { RackId } from '../watch/index.ts';

/** What is kept of the texts: nothing of them, their sizes and circumstances, or the texts themselves. */
export type Content = 'none' | 'metadata' | 'full';

/** Bounds of a rack's history; the oldest events go first. */
export interface Retention {
  readonly days: number;
  readonly bytes: number;
  readonly events: number;
}

export interface Policy {
  readonly content: Content;
  readonly retention: Retention;
  /** RE2 expressions; `@name` stands for a set of our own. What they match is never stored. */
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
  /** `bearer`: whoever has the host's own; `peer:<name>`: the peer that had this name when it was granted. */
  readonly to: string;
  /** Also what was recorded before it was granted may be read. */
  readonly includes_past: boolean;
  readonly granted_at: string;
  readonly granted_by: string;
  readonly expires_at: string;
  readonly revoked_at: string | null;
}

/** An end of a rack's history: of its file, and of an event in it. */
export interface Place {
  /** Number of the history file: a purge begins the next one. */
  readonly generation: number;
  readonly seq: number;
}

/** Who has a peer's name now. A peer that is minted again under the name is another one. */
export interface PeerIdentity {
  readonly id: string;
  readonly minted_at: string;
}

/** A write token without its secret. */
export interface WriteToken {
  readonly id: string;
  readonly rack: RackId;
  /** It counts as long as this grant, which has the verb `write`, does. */
  readonly grant: string;
  readonly label: string | null;
  readonly minted_at: string;
  readonly expires_at: string;
  readonly revoked_at: string | null;
}

/** An event before it is stored. */
export interface NewEvent {
  /** Unique in its rack. */
  readonly id: string;
  readonly at: string;
  /** `message`, `reasoning`, `tool_call`, `tool_result`, `completion`, `task`, `run`, `step`, `request`, or what a sender calls it. */
  readonly kind: string;
  /** What it is about: the id of a completion, task, run or session. */
  readonly subject?: string | undefined;
  readonly role?: string | undefined;
  readonly model?: string | undefined;
  readonly content?: string | undefined;
  /** Circumstances: numbers, short texts. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined;
}

/** What was removed: all that is left of a history. */
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
  /** Counts and what was before and after; never a text of a history. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface RecorderEnvelope {
  readonly contract: 1;
  readonly noun: 'rack' | 'grant' | 'review' | 'ingest';
  readonly data: unknown;
  readonly as_of: string;
  readonly warnings: readonly string[];
}
