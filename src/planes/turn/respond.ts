import { randomBytes } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import type { HttpError } from '../../http/error.ts';
import type { Work } from '../../watch/index.ts';
import { serverSentEvents, streamResponse } from '../../http/stream.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { AnswerAbout, AnsweredRequest, StreamWriter } from '../../wires/core/wire.ts';
import { type AnswerBatches, collected } from '../../wires/core/backend.ts';
import { fingerprintOf } from './identity.ts';

/** Metadata of an answer of the resident model. */
export const aboutOf = (model: ModelInfo, request: AnsweredRequest): Answered['about'] => ({
  requestId: randomBytes(14).toString('hex'),
  model: model.id,
  created: Math.floor(Date.now() / 1000),
  request,
  resident: { fingerprint: fingerprintOf(model) },
});

/** Context of a request to the resident model. */
export interface Visit {
  readonly signal: AbortSignal;
  /** Resolves when the last byte of the response was sent or the client stopped reading. */
  readonly over: Promise<void>;
  readonly work: Work<'completion'>;
}

/** Context of a request that came through a route. */
export interface RouteVisit extends Visit {
  readonly asHttpError: (error: unknown) => HttpError;
}

/** An answer of the resident model as a stream of events, with its metadata. */
export interface Answered<About = AnswerAbout & Required<Pick<AnswerAbout, 'resident'>>> {
  readonly events: AnswerBatches;
  readonly about: About;
}

/** Writers of a wire's answers. */
interface AnswerWire<About> {
  readonly body: (events: readonly AnswerEvent[], about: About) => object;
  readonly writer: (about: About) => StreamWriter;
}

interface Manner extends Pick<RouteVisit, 'asHttpError'> {
  readonly stream: boolean | null | undefined;
  /** Content type of a stream. Default: server-sent events. */
  readonly contentType?: string;
}

/** Writes an answer of the resident model in the format of a wire: as one body, or as a stream. */
export async function respond<About>(
  wire: AnswerWire<About>,
  { events, about }: Answered<About>,
  { stream, contentType = serverSentEvents, asHttpError }: Manner,
): Promise<Response> {
  if (!stream) return Response.json(wire.body(await collected(events), about));
  const writer = wire.writer(about);
  return await streamResponse(framed(events, writer), {
    contentType,
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
  const last = writer.end();
  if (last !== '') yield last;
}
