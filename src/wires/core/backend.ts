import type { Json } from '../../util/json.ts';
import type { AnswerEvent } from './answer.ts';
import type { ResidentMetadata } from './wire.ts';

/** Events of answers. Events that arrive together form one batch; a batch is never empty. */
export type AnswerBatches = AsyncGenerator<readonly AnswerEvent[], void, undefined>;

/** Collects all events of answers. */
export async function collectEvents(batches: AnswerBatches): Promise<AnswerEvent[]> {
  const events: AnswerEvent[] = [];
  for await (const batch of batches) for (const event of batch) events.push(event);
  return events;
}

/** A request to the resident model. */
export interface BackendRequest {
  /** Request body in the format of the wire. */
  readonly body: Json;
  readonly stream: boolean;
  readonly traceparent: string | undefined;
  /** Who the request is from; all that name nobody are one client. */
  readonly client?: string | undefined;
}

export interface BackendAnswer {
  readonly events: AnswerBatches;
  readonly resident: ResidentMetadata;
}

/**
 * The resident model as a function call. Refusals and faults are thrown as `HttpError`s, by the call or by the
 * iteration. Aborting the signal releases the model, whether or not the events are read.
 */
export interface Backend {
  answer(wire: 'chat' | 'completions', request: BackendRequest, signal: AbortSignal): Promise<BackendAnswer>;
  /** @returns a response body of OpenAI's embeddings endpoint */
  embed(request: BackendRequest, signal: AbortSignal): Promise<object>;
}
