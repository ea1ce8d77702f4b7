import type { Server, ServerResponse } from 'node:http';
import { Server as TlsServer } from 'node:tls';
import type { Socket } from 'node:net';

/** The beginning of every response. */
const statusLine = 'HTTP/1.1 ';
/** Delays in ms between the bytes that are sent early. There are fewer of them than the status line has bytes. */
const probeDelaysMs = [0, 20, 200, 1_000, 5_000, 15_000, 30_000, 60_000];
/** Delay before the first early byte after a part of the response was sent. */
const firstProbeDelayMs = 50;
/** Interval in ms for rechecking a client that does not read. */
const blockedRetryMs = 1_000;
/** How long the stream of a half-closed connection may be silent before the connection is closed, in ms. */
const silenceTimeoutMs = 120_000;

interface PendingResponse {
  readonly outgoing: ServerResponse;
  /** Bytes written to the connection before this response. */
  bytesBefore: number;
}

/**
 * Supports clients that close their write side after a whole request, as `nc` does. A client that disconnected looks
 * the same until something is sent to it and is answered by a reset. So while there is nothing to send, single bytes of
 * the response are sent early: bytes of the status line and, between the chunks of a stream, leading zeros of the next
 * chunk size. A client that still reads sees a valid response; a client that is gone is detected at the second byte,
 * and its request is aborted.
 */
export function answerHalfClosed(server: Server): void {
  // Set on Node's server, whose types do not declare it: without it Node ends the response when the request stream
  // ends.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  const open = new WeakMap<Socket, Set<PendingResponse>>();
  server.prependListener('request', ({ socket }, outgoing) => {
    const pendingResponses = open.get(socket) ?? new Set();
    const pending = { outgoing, bytesBefore: socket.bytesWritten };
    open.set(socket, pendingResponses.add(pending));
    outgoing.once('close', () => pendingResponses.delete(pending));
    // Runs before Node sends what the next response has already written.
    outgoing.prependOnceListener('finish', () => {
      pendingResponses.delete(pending);
      const [next] = pendingResponses;
      if (next) next.bytesBefore = socket.bytesWritten;
    });
  });
  // HTTP sees the decrypted socket of a TLS connection.
  server.on(server instanceof TlsServer ? 'secureConnection' : 'connection', (socket: Socket) => {
    socket.once('end', () => {
      const [pending, ...others] = open.get(socket) ?? [];
      if (pending === undefined) return;
      // The timeout destroys a connection without activity. Of pipelined requests, only the response to the first one
      // is sent early.
      if (others.length > 0) socket.setTimeout(silenceTimeoutMs);
      probeClient(socket, pending);
    });
  });
}

function probeClient(socket: Socket, { outgoing, bytesBefore }: PendingResponse): void {
  let hasBegun = socket.bytesWritten !== bytesBefore;
  let bytesSent = 0;
  let timer: NodeJS.Timeout | undefined;
  const write = socket.write.bind(socket) as (data: unknown, ...more: unknown[]) => boolean;
  const sendNext = () => {
    if (socket.destroyed || outgoing.writableEnded) return;
    // Data that is already waiting to be sent serves the same purpose.
    if (socket.writableLength > 0) {
      timer = setTimeout(sendNext, blockedRetryMs);
      return;
    }
    if (!hasBegun) write(statusLine[bytesSent], 'latin1');
    else if (outgoing.chunkedEncoding) write('0', 'latin1');
    else return;
    bytesSent++;
    const delayMs = probeDelaysMs[bytesSent];
    if (delayMs !== undefined) timer = setTimeout(sendNext, delayMs);
  };
  socket.write = (data: string | Uint8Array, ...more: unknown[]) => {
    clearTimeout(timer);
    const rest = hasBegun ? data : data.slice(bytesSent);
    if (!hasBegun) socket.setTimeout(silenceTimeoutMs);
    hasBegun = true;
    bytesSent = 0;
    timer = setTimeout(sendNext, firstProbeDelayMs);
    return write(rest, ...more);
  };
  socket.once('close', () => clearTimeout(timer));
  if (hasBegun) socket.setTimeout(silenceTimeoutMs);
  timer = setTimeout(sendNext, 0);
}
