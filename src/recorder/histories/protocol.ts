import type { RackId } from '../../tracing/index.ts';
import type { NewEvent, Policy } from '../types.ts';
import type { HistoryTotals } from './history.ts';

/** Settings of a rack. The higher version takes precedence. */
export interface RackSettings {
  readonly version: number;
  readonly armed: boolean;
  readonly policy: Policy;
}

/** Requests to the writer thread. They are processed in order. */
export type WriterRequest =
  | { readonly do: 'settings'; readonly rack: RackId; readonly settings: RackSettings }
  | {
      readonly do: 'add';
      readonly rack: RackId;
      /** `host` or `token:<id>`. */
      readonly source: string;
      readonly events: readonly NewEvent[];
      /** RFC 3339 in UTC. */
      readonly now: string;
    }
  | { readonly do: 'sweep'; readonly rack: RackId; readonly now: string }
  | { readonly do: 'purge'; readonly rack: RackId; readonly generation: number }
  | { readonly do: 'keepOut'; readonly secret: string }
  | { readonly do: 'close' };

export interface AddResult {
  readonly accepted: number;
  readonly duplicates: number;
  readonly redacted: number;
  /** Events that retention limits deleted meanwhile. */
  readonly expired: { readonly events: number; readonly bytes: number };
}

export interface WriterResponses {
  settings: undefined;
  /** Undefined: the rack is not armed. */
  add: AddResult | undefined;
  sweep: { readonly events: number; readonly bytes: number };
  /** Undefined: the purge was already done. */
  purge: HistoryTotals | undefined;
  keepOut: undefined;
  close: undefined;
}

export interface WriterFailure {
  readonly code:
    | 'storage_full'
    | 'storage_failed'
    | 'storage_unsure'
    | 'redaction_too_slow'
    | 'recorder_failed';
  readonly message: string;
}

export interface WriterCall {
  readonly call: number;
  readonly question: WriterRequest;
}

export type WriterReply =
  | { readonly call: number; readonly answer: WriterResponses[WriterRequest['do']] }
  | { readonly call: number; readonly failure: WriterFailure };

/** Data that the thread gets at its start. */
export interface HistoryWriterData {
  readonly folder: string;
  readonly secrets: readonly string[];
}
