import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Answer, LiveFrames } from '../gateway/serve/answers.ts';
import { CallerGone } from '../gateway/serve/request-body.ts';

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
      givenUp.removeEventListener('abort', done);
      resolve();
    };
    // A caller that takes nothing for too long is as good as gone, and its money is held.
    const timer = setTimeout(() => {
      outgoing.destroy();
      leave();
      done();
    }, readerMs);
    outgoing.on('drain', done);
    outgoing.on('close', done);
    if (givenUp.aborted) done();
    else givenUp.addEventListener('abort', done);
  });
}

function asWebStream({ next, leave, givenUp, readerMs }: LiveFrames): ReadableStream<Uint8Array> {
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
        if (givenUp.aborted) void end();
        else givenUp.addEventListener('abort', () => void end(), { once: true });
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
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        controller.error(new CallerGone('though its connection is open'));
        gone();
      }, readerMs);
      return;
    }
    over = true;
    controller.close();
  }
}
