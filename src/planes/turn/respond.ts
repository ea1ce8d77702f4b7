import { randomBytes } from 'node:crypto';
import type { ModelInfo } from '../../engine/index.ts';
import type { HttpError } from '../../http/error.ts';
import type { TraceSpan } from '../../tracing/index.ts';
import { eventStreamType, streamResponse } from '../../http/stream.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import type { AnswerMetadata, AnsweredRequest, StreamWriter } from '../../wires/core/wire.ts';
import { type AnswerBatches, collectEvents } from '../../wires/core/backend.ts';
import { fingerprintOf } from './identity.ts';

/** Metadata of an answer of the resident model. */
export const createAnswerMetadata = (
  model: ModelInfo,
  request: AnsweredRequest,
): AnswerStream['metadata'] => ({
  requestId: randomBytes(14).toString('hex'),
  model: model.id,
  created: Math.floor(Date.now() / 1000),
  request,
  resident: { fingerprint: fingerprintOf(model) },
});

/** Context of a request to the resident model. */
export interface CompletionContext {
  readonly signal: AbortSignal;
  /** Resolves when the last byte of the response was sent or the client stopped reading. */
  readonly finished: Promise<void>;
  readonly span: TraceSpan<'completion'>;
}

/** Context of a request that came through a route. */
export interface RouteCompletionContext extends CompletionContext {
  readonly asHttpError: (error: unknown) => HttpError;
}

/** An answer of the resident model as a stream of events, with its metadata. */
export interface AnswerStream<Metadata = AnswerMetadata & Required<Pick<AnswerMetadata, 'resident'>>> {
  readonly events: AnswerBatches;
  readonly metadata: Metadata;
  /** Seed of the first answer to each prompt; answer k to a prompt is sampled with seed + k. */
  readonly seed: number;
}

/** Writers of a wire's answers. */
interface AnswerWire<Metadata> {
  readonly body: (events: readonly AnswerEvent[], metadata: Metadata) => object;
  readonly writer: (metadata: Metadata) => StreamWriter;
}

interface RespondOptions extends Pick<RouteCompletionContext, 'asHttpError'> {
  readonly stream: boolean | null | undefined;
  /** Content type of a stream. Default: server-sent events. */
  readonly contentType?: string;
}

/** Adds the seed, with which the same request gets the same text. */
export function withSeed(response: Response, seed: number): Response {
  response.headers.set('x-lathe-seed', String(seed));
  return response;
}

/** Writes an answer of the resident model in the format of a wire: as one body, or as a stream. */
export async function respond<Metadata>(
  wire: AnswerWire<Metadata>,
  { events, metadata, seed }: AnswerStream<Metadata>,
  { stream, contentType = eventStreamType, asHttpError }: RespondOptions,
): Promise<Response> {
  if (!stream) return withSeed(Response.json(wire.body(await collectEvents(events), metadata)), seed);
  const writer = wire.writer(metadata);
  const response = await streamResponse(toFrames(events, writer), {
    contentType,
    failureFrame: (error) => writer.fail(asHttpError(error)),
  });
  return withSeed(response, seed);
}

async function* toFrames(
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
