import { randomBytes } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import type { HttpError } from '../../http/error.ts';
import type { Work } from '../../watch/index.ts';
import { serverSentEvents, streamResponse } from '../../http/stream.ts';
import type { AnswerAbout, AnsweredRequest, ClientWire, StreamWriter } from '../../wires/core/wire.ts';
import { collected } from './chat.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { fingerprintOf } from './identity.ts';

/** What an answer of the resident model says of itself. */
export const aboutOf = (model: ModelInfo, request: AnsweredRequest): Answered['about'] => ({
  requestId: randomBytes(14).toString('hex'),
  model: model.id,
  created: Math.floor(Date.now() / 1000),
  request,
  resident: { fingerprint: fingerprintOf(model) },
});

/** Who asks the resident model. */
export interface Visit {
  readonly signal: AbortSignal;
  /** Resolves when the answer is out to its last byte, or nobody reads it any more. */
  readonly over: Promise<void>;
  readonly work: Work<'completion'>;
}

/** An answer of the resident model as it comes, and what it says of itself. */
export interface Answered {
  readonly events: AnswerBatches;
  readonly about: AnswerAbout & Required<Pick<AnswerAbout, 'resident'>>;
}

/** An answer of the resident model in the words of a wire: in one body, or as server-sent events. */
export async function respond(
  wire: Pick<ClientWire, 'body' | 'writer'>,
  { events, about }: Answered,
  {
    stream,
    asHttpError,
  }: {
    readonly stream: boolean | null | undefined;
    readonly asHttpError: (error: unknown) => HttpError;
  },
): Promise<Response> {
  if (!stream) return Response.json(wire.body(await collected(events), about));
  const writer = wire.writer(about);
  return await streamResponse(framed(events, writer), {
    contentType: serverSentEvents,
    failure: (error) => writer.fail(asHttpError(error)),
  });
}

async function* framed(
  batches: AnswerBatches,
  writer: StreamWriter,
): AsyncGenerator<string, void, undefined> {
  for await (const batch of batches) {
    let text = '';
    for (const event of batch) text += writer.write(event);
    if (text !== '') yield text;
  }
  yield writer.end();
}
