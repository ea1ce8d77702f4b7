import type { TraceSpan } from '../tracing/index.ts';
import type { HttpError } from './error.ts';
import type { Caller, Route } from './route.ts';

/** A WebSocket endpoint, on which every message of the client is a turn. Turns run one after the other. */
export interface SocketRoute {
  readonly path: string;
  /** Its access rules apply, and its completions are what the turns are traced as. */
  readonly route: Route;
  readonly open: (caller: Caller) => SocketSession;
}

/** One connection. */
export interface SocketSession {
  /** Yields the messages that answer a message of the client. Throws an error that `failure` then writes. */
  answer(message: Buffer, turn: SocketTurn): AsyncGenerator<string, void, undefined>;
  /** The messages for an error of the current turn. */
  failure(error: HttpError): readonly string[];
  /** The message for an error of the connection, or of a message that gets no turn. */
  refusal(error: HttpError): string;
}

export interface SocketTurn extends Caller {
  readonly requestId: string;
  /** Aborted when the connection closes or the host stops. */
  readonly signal: AbortSignal;
  /** Resolves when the last message was sent. */
  readonly finished: Promise<void>;
  readonly span: TraceSpan<'completion'>;
  readonly asHttpError: (error: unknown) => HttpError;
}
