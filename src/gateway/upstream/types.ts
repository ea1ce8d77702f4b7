import type { Candidate } from '../catalog/types.ts';
import type { BackendAnswer } from '../../wires/core/backend.ts';
import type { UpstreamFailure } from '../../wires/core/upstream-failure.ts';
import type { SseFrame, UpstreamBody } from '../../wires/core/wire.ts';

/** The wire of a candidate cannot express this request. Its cause is the error for the caller. */
export class UntranslatableRequest extends Error {}

export interface UpstreamRequest {
  readonly candidate: Candidate;
  readonly body: UpstreamBody;
  readonly stream: boolean;
  /** Prompt prefix: selects the host of a pool. */
  readonly prefix: string;
  /** Aborts the request and closes its connection. */
  readonly signal: AbortSignal;
  readonly traceparent?: string | undefined;
  /** Who the request is from, for a provider in this process. */
  readonly client?: string | undefined;
}

export interface UpstreamFrames extends AsyncIterable<SseFrame> {
  /** Returns a frame that has already arrived, if any. */
  readonly takeReady?: () => SseFrame | undefined;
  /** Whether the stream ended normally and every frame was read. */
  readonly hasEnded?: () => boolean;
}

/** The head of an upstream answer. Its body is read once, with `text` or `frames`, or discarded with `cut`. */
export interface UpstreamReply {
  readonly status: number;
  /** Names in lower case; repeated headers are joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Reads the whole body. Rejects with `UpstreamFailure` when it breaks off, is too large or takes too long. */
  readonly text: () => Promise<string>;
  /** Reads frames as they arrive. Throws `UpstreamFailure` as `text` does, and when none arrives within the idle limit. */
  readonly frames: () => UpstreamFrames;
  readonly cut: () => void;
  /** The answer of the resident model: events in place of a body. */
  readonly local?: BackendAnswer;
}

/** Sends one attempt to a provider, with pooled connections, vetted addresses and time limits. */
export interface Transport {
  /** Resolves with the head of the answer, for every status. Rejects with `UpstreamFailure` when there is no answer. */
  send(request: UpstreamRequest): Promise<UpstreamReply>;
  close(): Promise<void>;
}

export interface Attempt {
  readonly candidate: Candidate;
  /** Number of the attempt among all of the request, from 0. */
  readonly attemptNumber: number;
  /** Index of the candidate's model: 0 is the requested model, by whichever deployment. */
  readonly candidateIndex: number;
  /** Set where another deployment may be asked at the same time: aborts this attempt alone. */
  readonly signal?: AbortSignal;
  /** To be called when the answer begins: then no other deployment is asked at the same time. */
  readonly onFirstByte?: () => void;
}

/** An attempt of a hedged request. */
export interface HedgedAttempt {
  readonly candidate: Candidate;
  readonly outcome: 'answered' | 'failed' | 'aborted';
}

export interface HedgeOptions {
  /** How long the first deployment may take until its answer begins. */
  readonly delayMs: number;
  /** Called when it is known which attempt answers, or that none does. @param attempts the first one, and the second */
  readonly onHedge: (attempts: readonly [HedgedAttempt, HedgedAttempt]) => void;
}

/** The result of an attempt. */
export interface AttemptReport extends Attempt {
  readonly failure?: UpstreamFailure;
  /** Delay before the next attempt on the same model; undefined when there is none, or it follows at once at another deployment. */
  readonly retryDelayMs?: number;
}

export interface RunOptions {
  readonly signal: AbortSignal;
  /** Failures of a single caller do not open a breaker. */
  readonly callerId: string;
  readonly stream: boolean;
  /** Resolves when the answer has ended: until then it has a place at its deployment. */
  readonly finished: Promise<void>;
  /** Asks a second deployment of the requested model where the first one is slow; at most once for each request. */
  readonly hedge?: HedgeOptions;
  /** Called when an attempt has ended, unless it was aborted because another one answered. */
  readonly onAttempt?: (report: AttemptReport) => void;
}

/** What the order of a model's deployments depends on. */
export interface RoutingFacts {
  /** Prompt prefix: the same one goes to the same deployment, where routing is sticky. */
  readonly prefix: string;
  readonly stream: boolean;
  /** Estimated cost in nanodollars. */
  readonly costOf: (candidate: Candidate) => bigint;
}

/**
 * Tries models in order, each with retries and exponential backoff. Where a deployment of a model fails, the next one is tried at
 * once; retries begin after the last one. Candidates with an open breaker are skipped, and deployments without room.
 */
export interface Router {
  /** Sorts the deployments of each model by its routing and by what is known about them now. */
  order(candidates: readonly Candidate[], facts: RoutingFacts): Candidate[];
  /**
   * `attempt` may reject with `UpstreamFailure` as long as nothing was sent to the caller, and with `UntranslatableRequest`
   * to skip a candidate; other errors pass through.
   * Rejects with a failure of the last model when every candidate failed.
   */
  run<T>(
    candidates: readonly Candidate[],
    attempt: (attempt: Attempt) => Promise<T>,
    options: RunOptions,
  ): Promise<T>;
}
