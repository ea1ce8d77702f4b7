import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { ClientGone } from './error.ts';

/** Frames of a stream that is being made; whoever delivers them takes one after the other. */
export interface LiveFrames {
  /** Of frames, put together; `closed` with the last. Undefined where there are none any more. Never rejects. */
  readonly next: () => Promise<{ readonly text: string; readonly closed: boolean } | undefined>;
  /** Nobody takes the rest. */
  readonly leave: () => void;
  /** Aborted: the last frames come soon, and are sent whether or not anybody takes them. */
  readonly givenUp?: AbortSignal;
  /** How long a client may take nothing. Undefined: whoever makes the frames sees to that. */
  readonly readerMs?: number;
}

/** What goes back to the client. */
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

/** How an answer goes out: straight into Node's own where there is one, which is faster than a web stream. */
export interface Way {
  readonly outgoing: ServerResponse | undefined;
  /** Aborted when the caller closes the connection. */
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
      // The word of it may have been before anybody listened.
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

/** Until the caller has taken most of what was written, or nobody will wait for that. */
function taken(outgoing: ServerResponse, { readerMs, givenUp, leave }: LiveFrames): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      outgoing.off('drain', done);
      outgoing.off('close', done);
      givenUp?.removeEventListener('abort', done);
      resolve();
    };
    // A caller that takes nothing for too long is as good as gone, and its money is held.
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
        // Also where the caller takes nothing, so that nobody asks for more.
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
        controller.error(new ClientGone('the client takes nothing of its answer'));
        gone();
      }, readerMs);
      return;
    }
    over = true;
    controller.close();
  }
}
