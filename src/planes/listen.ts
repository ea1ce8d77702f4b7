import {
  createServer,
  type IncomingMessage,
  maxHeaderSize,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type Listening, listening } from '../listening/listening.ts';
import type { HostGuard } from './ingress.ts';
import { hostEnvelope, Problem } from './problem.ts';
import { newRequestId } from './request-id.ts';

/**
 * How long an idle connection is kept, in ms. Longer than clients and proxies keep theirs, mostly 60 s: whoever closes
 * first must not be the host, whose close may cross a request on its way.
 */
const keepAliveMs = 65_000;

/** Takes the port (0: a free one) and serves the app behind the guard. Rejects with Node's error when the port is in use. */
export async function listen(
  app: { fetch: (request: Request, env: object) => Response | Promise<Response> },
  guard: HostGuard,
  address: { host: string; port: number },
): Promise<Listening> {
  let closing = false;
  const serve = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  // The guard below says what is wrong with a missing Host; Node's own check would answer an empty 400.
  const server = createServer(
    { requireHostHeader: false, keepAliveTimeout: keepAliveMs },
    (incoming, outgoing) => {
      if (closing) outgoing.setHeader('connection', 'close');
      const refusal = guard(incoming.rawHeaders, incoming.url ?? '');
      if (refusal) {
        refuse(incoming, outgoing, new Problem(refusal.status, refusal.code, refusal.message));
        return;
      }
      void serve(incoming, outgoing);
    },
  );
  // What Node refuses before a request exists; its own answers have neither an id nor a body.
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (socket.destroyed || !socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else socket.end(rawRefusal(unreadable(error.code)));
  });
  server.on('checkExpectation', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const expected = (incoming.headers.expect ?? '').slice(0, 80);
    const message = `'Expect: ${expected}' is not supported; leave it out.`;
    refuse(incoming, outgoing, new Problem(417, 'expectation_failed', message));
  });
  const open = await listening(server, address);
  return {
    ...open,
    close() {
      closing = true;
      return open.close();
    },
  };
}

/** Of a request that Node's parser gave up. */
function unreadable(code: string | undefined): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem(431, 'headers_too_large', `The headers are larger than ${maxHeaderSize} bytes.`);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new Problem(413, 'body_too_large', 'The extensions of a chunk of the body are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem(408, 'request_timeout', 'The request did not arrive in time.');
    default:
      return new Problem(400, 'bad_request', 'This is not an HTTP request that can be read.');
  }
}

function refusalHeaders(body: string) {
  return {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-content-type-options': 'nosniff',
    'x-request-id': newRequestId(),
    connection: 'close',
  };
}

function rawRefusal(problem: Problem): string {
  const body = JSON.stringify(hostEnvelope(problem));
  const headers = Object.entries(refusalHeaders(body)).map(([name, value]) => `${name}: ${value}\r\n`);
  const status = `${problem.status} ${STATUS_CODES[problem.status] ?? ''}`;
  return `HTTP/1.1 ${status}\r\n${headers.join('')}\r\n${body}`;
}

function refuse(incoming: IncomingMessage, outgoing: ServerResponse, problem: Problem): void {
  const body = JSON.stringify(hostEnvelope(problem));
  outgoing.writeHead(problem.status, refusalHeaders(body));
  outgoing.end(body);
  incoming.resume();
}
