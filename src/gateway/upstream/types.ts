import type { Candidate } from '../catalog/types.ts';
import type { BackendAnswer } from '../../wires/core/backend.ts';
import type { SseFrame, UpstreamBody } from '../../wires/core/wire.ts';

/** A candidate that this request cannot be put to at all. */
export class Unaskable extends Error {}

export interface Sending {
  readonly candidate: Candidate;
  readonly body: UpstreamBody;
  readonly stream: boolean;
  /** Chooses the host of a pool. */
  readonly prefix: string;
  /** Gives up: the connection is closed. */
  readonly signal: AbortSignal;
  readonly traceparent?: string | undefined;
}

export interface Frames extends AsyncIterable<SseFrame> {
  /** One that is here already, if there is one. */
  readonly ready?: () => SseFrame | undefined;
  /** Whether the provider came to its end in order, and all of it was taken. */
  readonly ended?: () => boolean;
}

/** The head of an answer; the body is read once, by one of the two, or `cut`. */
export interface UpstreamReply {
  readonly status: number;
  /** Lower-case names; several of a name joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** All of it. Rejects with `UpstreamFailure` where it breaks off, is too large or takes too long. */
  readonly text: () => Promise<string>;
  /** Frames as they come. Throws `UpstreamFailure` likewise, and when nothing comes for the idle limit. */
  readonly frames: () => Frames;
  readonly cut: () => void;
  /** The answer of the model of this process, which comes as events, without a body to read. */
  readonly local?: BackendAnswer;
}

/** The way to providers: pooled connections, vetted addresses, time limits; one attempt. */
export interface Transport {
  /** Resolves with the head, whatever its status. Rejects with `UpstreamFailure` where there is none. */
  send(sending: Sending): Promise<UpstreamReply>;
  close(): Promise<void>;
}

export interface Attempt {
  readonly candidate: Candidate;
  /** Of all, from 0. */
  readonly n: number;
  /** The candidate's place in the chain: 0 is what was asked for. */
  readonly place: number;
}

/** Tries candidates in turn, each a few times with growing pauses, none whose breaker is open. */
export interface Router {
  /**
   * `attempt` may reject with `UpstreamFailure`, as long as nothing was sent to the caller, and with `Unaskable` for any
   * candidate but the first, which then is passed by; anything else passes through.
   * Rejects with the last failure when nothing is left.
   * @param caller whose requests they are: what only one caller's come to opens no breaker
   */
  run<T>(
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<T>,
    signal: AbortSignal,
    caller: string,
  ): Promise<T>;
}
