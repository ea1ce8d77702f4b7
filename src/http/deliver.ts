import type { ServerResponse } from 'node:http';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { ClientGone } from './error.ts';

/** Source of the frames of a live stream; the consumer takes one after the other. */
export interface FrameSource {
  /**
   * Returns the text of the next frames, concatenated; `isLast` marks the end of the stream. Undefined after the last
   * frame. Never rejects.
   */
  readonly next: () => Promise<{ readonly text: string; readonly isLast: boolean } | undefined>;
  /** Tells the source that the rest will not be read. */
  readonly cancel: () => void;
  /**
   * Aborted when the stream is being ended: the last frames follow soon and are sent without waiting for the client.
   */
  readonly abortSignal?: AbortSignal;
  /** How long a client may stop reading, in ms. Undefined: the source enforces its own limit. */
  readonly stallTimeoutMs?: number;
}

/** A response to the client, in one piece or as a stream of frames. */
export class OutgoingResponse<Body extends string | FrameSource = string | FrameSource> {
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
export interface DeliveryOptions {
  readonly outgoing: ServerResponse | undefined;
  /** Aborted when the client closes the connection. */
  readonly disconnectSignal: AbortSignal;
  readonly onFault: (error: unknown) => void;
}

export function deliver(
  { status, headers, body }: OutgoingResponse,
  { outgoing, disconnectSignal, onFault }: DeliveryOptions,
): Response {
  if (!outgoing)
    return new Response(typeof body === 'string' ? body : asWebStream(body), { status, headers });
  if (typeof body !== 'string') {
    if (!outgoing.destroyed) outgoing.writeHead(status, headers);
    writeToNode(body, outgoing, disconnectSignal).catch((error: unknown) => {
      outgoing.destroy();
      onFault(error);
    });
  } else if (!outgoing.destroyed) {
    outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    outgoing.end(body);
  }
  return RESPONSE_ALREADY_SENT;
}

async function writeToNode(
  frames: FrameSource,
  outgoing: ServerResponse,
  disconnectSignal: AbortSignal,
): Promise<void> {
  if (disconnectSignal.aborted) frames.cancel();
  else disconnectSignal.addEventListener('abort', () => frames.cancel(), { once: true });
  for (;;) {
    const next = await frames.next();
    if (!next) return;
    if (outgoing.destroyed) {
      // The connection may have closed before the abort listener was added.
      frames.cancel();
      return;
    }
    if (next.isLast) {
      outgoing.end(next.text);
      return;
    }
    if (!outgoing.write(next.text)) await waitForDrain(outgoing, frames);
  }
}

/**
 * Waits until the client has read most of what was written, has disconnected or has stalled, or until the stream is
 * being ended.
 */
function waitForDrain(
  outgoing: ServerResponse,
  { stallTimeoutMs, abortSignal, cancel }: FrameSource,
): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      outgoing.off('drain', done);
      outgoing.off('close', done);
      abortSignal?.removeEventListener('abort', done);
      resolve();
    };
    // A client that stops reading counts as disconnected, so that its held credit is released.
    const stalled = () => {
      outgoing.destroy();
      cancel();
      done();
    };
    const timer = stallTimeoutMs === undefined ? undefined : setTimeout(stalled, stallTimeoutMs);
    outgoing.on('drain', done);
    outgoing.on('close', done);
    if (abortSignal?.aborted) done();
    else abortSignal?.addEventListener('abort', done);
  });
}

export function asWebStream({
  next,
  cancel,
  abortSignal,
  stallTimeoutMs,
}: FrameSource): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let stallTimer: NodeJS.Timeout | undefined;
  let isOver = false;
  const stop = () => {
    isOver = true;
    clearTimeout(stallTimer);
    cancel();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        // Sends the last frames even where the client reads nothing and the stream is not pulled.
        const flush = async () => {
          while (!isOver) await send(controller);
        };
        if (abortSignal?.aborted) void flush();
        else abortSignal?.addEventListener('abort', () => void flush(), { once: true });
      },
      pull: send,
      cancel: stop,
    },
    { highWaterMark: 0 },
  );

  async function send(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(stallTimer);
    const frame = await next();
    if (isOver) return;
    if (frame && frame.text !== '') controller.enqueue(encoder.encode(frame.text));
    if (frame && !frame.isLast) {
      if (stallTimeoutMs === undefined) return;
      clearTimeout(stallTimer);
      stallTimer = setTimeout(() => {
        controller.error(new ClientGone('the client does not read its response'));
        stop();
      }, stallTimeoutMs);
      return;
    }
    isOver = true;
    controller.close();
  }
}
