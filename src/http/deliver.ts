import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { ClientGone } from './error.ts';

/** Source of the frames of a live stream; the consumer takes one after the other. */
export interface LiveFrames {
  /**
   * Returns the text of the next frames, concatenated; `isLast` marks the end of the stream. Undefined after the last
   * frame. Never rejects.
   */
  readonly next: () => Promise<{ readonly text: string; readonly closed: boolean } | undefined>;
  /** Tells the source that the rest will not be read. */
  readonly leave: () => void;
  /**
   * Aborted when the stream is being ended: the last frames follow soon and are sent without waiting for the client.
   */
  readonly givenUp?: AbortSignal;
  /** How long a client may stop reading, in ms. Undefined: the source enforces its own limit. */
  readonly readerMs?: number;
}

/** A response to the client, in one piece or as a stream of frames. */
export class Answer<Body extends string | LiveFrames = string | LiveFrames> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;

  constructor(status: number, headers: Readonly<Record<string, string>>, body: Body) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
}

/** Where a response is written. Writing to Node's response directly is faster than a web stream. */
export interface Way {
  readonly outgoing: ServerResponse | undefined;
  /** Aborted when the client closes the connection. */
  readonly gone: AbortSignal;
  readonly onFault: (error: unknown) => void;
}

export function deliver({ status, headers, body }: Answer, { outgoing, gone, onFault }: Way): Response {
  if (!outgoing)
    return new Response(typeof body === 'string' ? body : asWebStream(body), { status, headers });
  if (typeof body !== 'string') {
    if (!outgoing.destroyed) outgoing.writeHead(status, headers);
    intoNode(body, outgoing, gone).catch((error: unknown) => {
      outgoing.destroy();
      onFault(error);
    });
  } else if (!outgoing.destroyed) {
    outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    outgoing.end(body);
  }
  return RESPONSE_ALREADY_SENT;
}

async function intoNode(frames: LiveFrames, outgoing: ServerResponse, gone: AbortSignal): Promise<void> {
  if (gone.aborted) frames.leave();
  else gone.addEventListener('abort', () => frames.leave(), { once: true });
  for (;;) {
    const next = await frames.next();
    if (!next) return;
    if (outgoing.destroyed) {
      // The connection may have closed before the abort listener was added.
      frames.leave();
      return;
    }
    if (next.closed) {
      outgoing.end(next.text);
      return;
    }
    if (!outgoing.write(next.text)) await taken(outgoing, frames);
  }
}

/**
 * Waits until the client has read most of what was written, has disconnected or has stalled, or until the stream is
 * being ended.
 */
function taken(outgoing: ServerResponse, { readerMs, givenUp, leave }: LiveFrames): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      outgoing.off('drain', done);
      outgoing.off('close', done);
      givenUp?.removeEventListener('abort', done);
      resolve();
    };
    // A client that stops reading counts as disconnected, so that its held credit is released.
    const stalled = () => {
      outgoing.destroy();
      leave();
      done();
    };
    const timer = readerMs === undefined ? undefined : setTimeout(stalled, readerMs);
    outgoing.on('drain', done);
    outgoing.on('close', done);
    if (givenUp?.aborted) done();
    else givenUp?.addEventListener('abort', done);
  });
}

export function asWebStream({ next, leave, givenUp, readerMs }: LiveFrames): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let waiting: NodeJS.Timeout | undefined;
  let over = false;
  const gone = () => {
    over = true;
    clearTimeout(waiting);
    leave();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // Sends the last frames even where the client reads nothing and the stream is not pulled.
        const end = async () => {
          while (!over) await send(controller);
        };
        if (givenUp?.aborted) void end();
        else givenUp?.addEventListener('abort', () => void end(), { once: true });
      },
      pull: send,
      cancel: gone,
    },
    { highWaterMark: 0 },
  );

  async function send(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(waiting);
    const frame = await next();
    if (over) return;
    if (frame && frame.text !== '') controller.enqueue(encoder.encode(frame.text));
    if (frame && !frame.closed) {
      if (readerMs === undefined) return;
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        controller.error(new ClientGone('the client does not read its response'));
        gone();
      }, readerMs);
      return;
    }
    over = true;
    controller.close();
  }
}
