import type { HttpError } from '../../http/error.ts';
import { serverSentEvents, sse, streamResponse } from '../../http/stream.ts';
import { openaiEnvelope } from './envelope.ts';

/**
 * Chunks as OpenAI's server-sent events: a `data:` line each, then `[DONE]`. What breaks in the middle is a frame with
 * the error envelope, and no `[DONE]`.
 */
export function eventStream(
  chunks: AsyncGenerator<unknown, void, undefined>,
  asHttpError: (error: unknown) => HttpError,
): Promise<Response> {
  return streamResponse(framed(chunks), {
    contentType: serverSentEvents,
    failure: (error) => sse(openaiEnvelope(asHttpError(error))),
  });
}

async function* framed(
  chunks: AsyncGenerator<unknown, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  for await (const chunk of chunks) yield sse(chunk);
  yield sse('[DONE]');
}
