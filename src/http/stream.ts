import { raceTimeout } from '../util/race-timeout.ts';
import { asWebStream, type FrameSource } from './deliver.ts';
import { ClientGone } from './error.ts';

/**
 * How long sending the status line waits for the first frame, so that an early refusal still gets an HTTP error status.
 */
const firstFrameTimeoutMs = 1000;

/** Content type and failure frame of a stream. */
export interface StreamFormat {
  readonly contentType: string;
  /** How long a client may stop reading, in ms. Default: as long as its connection lasts. */
  readonly stallTimeoutMs?: number;
  /** Returns the last frame of a stream that failed. */
  readonly failureFrame: (error: unknown) => string;
}

export const eventStreamType = 'text/event-stream; charset=utf-8';
export const ndjsonType = 'application/x-ndjson';

interface LiveStream {
  readonly frames: FrameSource;
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
export const framesOf = (response: Response): FrameSource | undefined => streams.get(response)?.frames;

/**
 * Creates a response that streams frames as they are produced. An error before the first frame is thrown; a later one
 * is sent as the format's failure frame and ends the stream. A frame is produced only after the connection accepted the
 * previous one, so a slow reader does not fill memory.
 */
export async function streamResponse(
  frames: AsyncGenerator<string, void, undefined>,
  { contentType, failureFrame, stallTimeoutMs }: StreamFormat,
): Promise<Response> {
  let first: Promise<IteratorResult<string, void>> | undefined = frames.next();
  await raceTimeout(first, firstFrameTimeoutMs);
  const end = Promise.withResolvers<unknown>();
  const source: FrameSource = {
    ...(stallTimeoutMs === undefined ? {} : { stallTimeoutMs }),
    async next() {
      try {
        const result = await (first ?? frames.next());
        first = undefined;
        if (!result.done) return { text: result.value, isLast: false };
        end.resolve(undefined);
        return { text: '', isLast: true };
      } catch (error) {
        end.resolve(error);
        return { text: error instanceof ClientGone ? '' : failureFrame(error), isLast: true };
      }
    },
    cancel() {
      const settle = () => end.resolve(new ClientGone());
      frames.return().then(settle, settle);
    },
  };
  const response = new Response(asWebStream(source), {
    headers: { 'content-type': contentType, 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
  });
  streams.set(response, { frames: source, end: end.promise });
  return response;
}
