import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type Listening, listening } from '../../listening/listening.ts';
import { GatewayError } from '../errors.ts';
import { plainErrorBody } from './answers.ts';
import { newReceipt, receiptHeaders } from './receipt.ts';

/** How long callers may take, in ms: who sends a byte a minute holds a connection for this long and no longer. */
export interface Patience {
  readonly headersMs: number;
  readonly requestMs: number;
  readonly keepAliveMs: number;
}
const patience: Patience = { headersMs: 15_000, requestMs: 120_000, keepAliveMs: 65_000 };

/** Takes the port (0: a free one). Rejects with Node's error where it cannot be had. */
export async function listen(
  app: { fetch: (request: Request, env: object) => Response | Promise<Response> },
  { host, port, headersMs, requestMs, keepAliveMs }: { host: string; port: number } & Partial<Patience>,
): Promise<Listening> {
  let closing = false;
  const serve = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
    // Of requests without a Host header, as health checks of HTTP/1.0 are.
    hostname: 'localhost',
    // Its own answers have neither a receipt nor a body.
    errorHandler() {
      const { body, headers } = refusalOf(unreadable(undefined));
      return new Response(body, { status: 400, headers });
    },
  });
  const server = createServer(
    {
      requireHostHeader: false,
      headersTimeout: headersMs ?? patience.headersMs,
      requestTimeout: requestMs ?? patience.requestMs,
      keepAliveTimeout: keepAliveMs ?? patience.keepAliveMs,
      connectionsCheckingInterval: Math.min(1000, headersMs ?? patience.headersMs),
      // Small chunks of a stream go out as they are.
      noDelay: true,
    },
    (incoming, outgoing) => {
      if (closing) outgoing.setHeader('connection', 'close');
      void serve(incoming, outgoing);
    },
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (socket.destroyed || !socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else socket.end(rawRefusal(unreadable(error.code)));
  });
  server.on('checkExpectation', (_: IncomingMessage, outgoing: ServerResponse) => {
    const { body, headers } = refusalOf(unreadable('expectation'));
    outgoing.writeHead(417, headers).end(body);
  });
  const open = await listening(server, { host, port });
  return {
    ...open,
    close() {
      closing = true;
      return open.close();
    },
  };
}

/** Of a request that does not get as far as the app. @param code of Node's error */
function unreadable(code: string | undefined): GatewayError {
  const refused = (status: number, message: string, name: string) =>
    new GatewayError(status, 'invalid_request_error', message, { code: name });
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return refused(431, 'The headers are too large.', 'headers_too_large');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return refused(413, 'The extensions of a chunk of the body are too large.', 'body_too_large');
    case 'expectation':
      return refused(417, 'This expectation cannot be met; leave out `Expect`.', 'expectation_failed');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return refused(408, 'The request did not arrive in time.', 'request_timeout');
    default:
      return refused(400, 'This is not an HTTP request that can be read.', 'bad_request');
  }
}

const reasons: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  431: 'Request Header Fields Too Large',
};

function refusalOf(error: GatewayError) {
  const receipt = newReceipt();
  const body = JSON.stringify(plainErrorBody(error, receipt.requestId));
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...receiptHeaders(receipt),
  };
  return { body, headers };
}

function rawRefusal(error: GatewayError): string {
  const { body, headers } = refusalOf(error);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${error.status} ${reasons[error.status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}
