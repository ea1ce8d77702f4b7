import { raceTimeout } from '../util/race-timeout.ts';
import { asWebStream, type LiveFrames } from './deliver.ts';
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

interface LiveStream {
  readonly frames: LiveFrames;
  readonly end: Promise<unknown>;
}
const streams = new WeakMap<Response, LiveStream>();

/**
 * When the last frame of a stream is out, or nobody reads it any more; undefined for what is no stream. Resolves with
 * what broke it, where something did.
 */
export const streamEnd = (response: Response): Promise<unknown> | undefined => streams.get(response)?.end;

/** The frames of a stream, to be sent without a web stream between; undefined for what is no stream. */
export const framesOf = (response: Response): LiveFrames | undefined => streams.get(response)?.frames;

/**
 * A response of frames as they are made. An error before the first frame is thrown; a later one is sent as the wire's
 * failure frame and ends the stream. A frame is made only when the connection has taken the one before, so a slow
 * reader holds nothing in memory.
 */
export async function streamResponse(
  frames: AsyncGenerator<string, void, undefined>,
  { contentType, failure }: StreamForm,
): Promise<Response> {
  let first: Promise<IteratorResult<string, void>> | undefined = frames.next();
  await raceTimeout(first, patienceMs);
  const end = Promise.withResolvers<unknown>();
  const live: LiveFrames = {
    async next() {
      try {
        const result = await (first ?? frames.next());
        first = undefined;
        if (!result.done) return { text: result.value, closed: false };
        end.resolve(undefined);
        return { text: '', closed: true };
      } catch (error) {
        end.resolve(error);
        return { text: error instanceof ClientGone ? '' : failure(error), closed: true };
      }
    },
    leave() {
      const left = () => end.resolve(new ClientGone());
      frames.return().then(left, left);
    },
  };
  const response = new Response(asWebStream(live), {
    headers: { 'content-type': contentType, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
  });
  streams.set(response, { frames: live, end: end.promise });
  return response;
}
