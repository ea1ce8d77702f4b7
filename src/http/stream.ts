import { raceTimeout } from '../util/race-timeout.ts';
import { asWebStream, type LiveFrames } from './deliver.ts';
import { ClientGone } from './error.ts';

/**
 * How long sending the status line waits for the first frame, so that an early refusal still gets an HTTP error status.
 */
const patienceMs = 1000;

/** Content type and failure frame of a stream. */
export interface StreamForm {
  readonly contentType: string;
  /** Returns the last frame of a stream that failed. */
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
 * Resolves when the last frame of a stream was sent or the client stopped reading, with the error that ended the
 * stream, if any. Undefined for a response that is not a stream.
 */
export const streamEnd = (response: Response): Promise<unknown> | undefined => streams.get(response)?.end;

/**
 * The frames of a stream, for sending without a web stream in between; undefined for a response that is not a stream.
 */
export const framesOf = (response: Response): LiveFrames | undefined => streams.get(response)?.frames;

/**
 * Creates a response that streams frames as they are produced. An error before the first frame is thrown; a later one
 * is sent as the format's failure frame and ends the stream. A frame is produced only after the connection accepted the
 * previous one, so a slow reader does not fill memory.
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
