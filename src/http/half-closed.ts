import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** What every answer begins with. */
const statusLine = 'HTTP/1.1 ';
/** Between the bytes that are sent while an answer has nothing to say, in ms. Fewer than the status line has. */
const pausesMs = [0, 20, 200, 1_000, 5_000, 15_000, 30_000, 60_000];
/** Before the first of them, once a part of the answer was sent. */
const firstPauseMs = 50;
/** Between two looks at a client that takes nothing. */
const blockedMs = 1_000;
/** How long a stream may be silent before its half-closed connection is cut. */
const silentMs = 120_000;

interface Answer {
  readonly outgoing: ServerResponse;
  /** Bytes that were written to the connection before it. */
  before: number;
}

/**
 * Answers clients that shut their write side after a whole request, as `nc` does. A client that is gone looks the same
 * until something is sent to it, which it resets. So while there is nothing else to send, single bytes of what comes next
 * are sent early: of the status line, and between the chunks of a stream the leading zeros that the size of a chunk may
 * have. Who still reads sees nothing unusual; who is gone is noticed at the second byte, and its request is aborted.
 */
export function answerHalfClosed(server: Server): void {
  // Node's own switch, which its types do not name: without it the end of a request's stream ends the answer's, too.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  const open = new WeakMap<Socket, Set<Answer>>();
  server.prependListener('request', ({ socket }, outgoing) => {
    const answers = open.get(socket) ?? new Set();
    const answer = { outgoing, before: socket.bytesWritten };
    open.set(socket, answers.add(answer));
    outgoing.once('close', () => answers.delete(answer));
    // Before Node passes on what the next one has written already.
    outgoing.prependOnceListener('finish', () => {
      answers.delete(answer);
      const [next] = answers;
      if (next) next.before = socket.bytesWritten;
    });
  });
  server.on('connection', (socket) => {
    socket.once('end', () => {
      const [answer, ...others] = open.get(socket) ?? [];
      if (answer === undefined) return;
      // Node destroys a connection on which nothing happens for so long. Of pipelined requests only the first one's answer
      // is sent early.
      if (others.length > 0) socket.setTimeout(silentMs);
      sendEarly(socket, answer);
    });
  });
}

function sendEarly(socket: Socket, { outgoing, before }: Answer): void {
  let hasBegun = socket.bytesWritten !== before;
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  const write = socket.write.bind(socket) as (data: unknown, ...more: unknown[]) => boolean;
  const sendNext = () => {
    if (socket.destroyed || outgoing.writableEnded) return;
    // What waits to be sent does as well.
    if (socket.writableLength > 0) {
      timer = setTimeout(sendNext, blockedMs);
      return;
    }
    if (!hasBegun) write(statusLine[sent], 'latin1');
    else if (outgoing.chunkedEncoding) write('0', 'latin1');
    else return;
    sent++;
    const pauseMs = pausesMs[sent];
    if (pauseMs !== undefined) timer = setTimeout(sendNext, pauseMs);
  };
  socket.write = (data: string | Uint8Array, ...more: unknown[]) => {
    clearTimeout(timer);
    const rest = hasBegun ? data : data.slice(sent);
    if (!hasBegun) socket.setTimeout(silentMs);
    hasBegun = true;
    sent = 0;
    timer = setTimeout(sendNext, firstPauseMs);
    return write(rest, ...more);
  };
  socket.once('close', () => clearTimeout(timer));
  if (hasBegun) socket.setTimeout(silentMs);
  timer = setTimeout(sendNext, 0);
}
