import type { Json } from '../../util/json.ts';
import type { AnswerEvent } from './answer.ts';
import type { ResidentAbout } from './wire.ts';

/** The events of answers: those that come together are one batch, which is never empty. */
export type AnswerBatches = AsyncGenerator<readonly AnswerEvent[], void, undefined>;

/** Reads answers to their end. */
export async function collected(batches: AnswerBatches): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = [];
  for await (const batch of batches) for (const event of batch) events.push(event);
  return events;
}

/** Who asks for an answer, and how. */
export interface BackendRequest {
  /** The members of a request of the wire. */
  readonly body: Json;
  readonly stream: boolean;
  readonly traceparent: string | undefined;
}

export interface BackendAnswer {
  readonly events: AnswerBatches;
  readonly resident: ResidentAbout;
}

/**
 * The resident model, to be asked by a function call. Refusals and faults are `HttpError`s, at once or between events. An
 * answer whose signal is aborted lets go of the model, whether or not its events are read.
 */
export interface Backend {
  answer(wire: 'chat' | 'completions', request: BackendRequest, signal: AbortSignal): Promise<BackendAnswer>;
  /** @returns the body of OpenAI's wire */
  embed(request: BackendRequest, signal: AbortSignal): Promise<object>;
}
