import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** What every answer begins with. A byte of it is sent after each of the pauses, in ms, while nothing else is. */
const statusLine = 'HTTP/1.1 ';
const pausesMs = [0, 20, 200, 1_000, 5_000, 15_000, 30_000, 60_000, 120_000];
/** How long a stream may be silent before its half-closed connection is cut. */
const silentMs = 120_000;

/**
 * Answers clients that shut their write side after a whole request, as `nc` does. A client that is gone looks the same
 * until something is sent to it, which it resets. So the status line is begun early, a byte at a time: who still reads
 * sees nothing unusual, who is gone is noticed at the second byte, and its request is aborted.
 */
export function answerHalfClosed(server: Server): void {
  // Node's own switch, which its types do not name: without it the end of a request's stream ends the answer's, too.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  const open = new WeakMap<Socket, number>();
  /** Bytes written when the only open request of a connection came. */
  const before = new WeakMap<Socket, number>();
  server.prependListener('request', ({ socket }, outgoing) => {
    const others = open.get(socket) ?? 0;
    if (others === 0) before.set(socket, socket.bytesWritten);
    else before.delete(socket);
    open.set(socket, others + 1);
    outgoing.once('close', () => open.set(socket, (open.get(socket) ?? 1) - 1));
  });
  server.on('connection', (socket) => {
    socket.once('end', () => {
      if ((open.get(socket) ?? 0) === 0) return;
      // Node destroys a connection on which nothing happens for so long.
      if (socket.bytesWritten === before.get(socket)) beginEarly(socket, () => socket.setTimeout(silentMs));
      else socket.setTimeout(silentMs);
    });
  });
}

/** Begins the answer's status line, and takes those bytes off the answer when it comes. */
function beginEarly(socket: Socket, begun: () => void): void {
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  const write = socket.write.bind(socket) as (data: unknown, ...more: unknown[]) => boolean;
  const next = () => {
    const pauseMs = pausesMs[sent];
    if (pauseMs !== undefined) timer = setTimeout(sendByte, pauseMs);
  };
  const sendByte = () => {
    if (socket.destroyed) return;
    write(statusLine[sent++], 'latin1');
    next();
  };
  socket.once('close', () => clearTimeout(timer));
  socket.write = (data: string | Uint8Array, ...more: unknown[]) => {
    clearTimeout(timer);
    Reflect.deleteProperty(socket, 'write');
    begun();
    return write(data.slice(sent), ...more);
  };
  next();
}
