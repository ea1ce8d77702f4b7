import { raceTimeout } from '../util/race-timeout.ts';
import { ClientGone } from './error.ts';

/** How long the status line waits for the first frame, so that a refusal is still an HTTP status. */
const patienceMs = 1000;

/** How a wire writes a stream. */
export interface StreamForm {
  readonly contentType: string;
  /** The last frame of a stream that broke. */
  readonly failure: (error: unknown) => string;
}

export const serverSentEvents = 'text/event-stream; charset=utf-8';
export const jsonLines = 'application/x-ndjson';

/** A server-sent event; `name` where the wire names them. */
export const sse = (value: unknown, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`;

const ends = new WeakMap<Response, Promise<unknown>>();

/**
 * When the last frame of a stream is out, or nobody reads it any more; undefined for what is no stream. Resolves with
 * what broke it, where something did.
 */
export const streamEnd = (response: Response): Promise<unknown> | undefined => ends.get(response);

/**
 * A response of frames as they are made. An error before the first frame is thrown; a later one is sent as the wire's
 * failure frame and ends the stream. A frame is made only when the connection has taken the one before, so a slow
 * reader holds nothing in memory.
 */
export async function streamResponse(
  frames: AsyncGenerator<string, void, undefined>,
  { contentType, failure }: StreamForm,
): Promise<Response> {
  let next: Promise<IteratorResult<string, void>> | undefined = frames.next();
  await raceTimeout(next, patienceMs);
  const encoder = new TextEncoder();
  const end = Promise.withResolvers<unknown>();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const result = await (next ?? frames.next());
          next = undefined;
          if (result.done) {
            controller.close();
            end.resolve(undefined);
          } else controller.enqueue(encoder.encode(result.value));
        } catch (error) {
          end.resolve(error);
          if (!(error instanceof ClientGone)) controller.enqueue(encoder.encode(failure(error)));
          controller.close();
        }
      },
      async cancel() {
        try {
          await frames.return();
        } finally {
          end.resolve(new ClientGone());
        }
      },
    },
    { highWaterMark: 0 },
  );
  const response = new Response(body, {
    headers: { 'content-type': contentType, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
  });
  ends.set(response, end.promise);
  return response;
}
