import {
  createServer,
  type IncomingMessage,
  maxHeaderSize,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { HttpError } from './error.ts';
import type { SecureContextOptions } from 'node:tls';
import { answerHalfClosed } from './half-closed.ts';

/** Why a request is refused before it reaches the application. */
export interface RefusedRequest {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Headers and body of a refusal. */
export interface WrittenRefusal {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Takes over connections whose request asks for another protocol. */
export interface UpgradeHandler {
  /** False: the request is served as if it did not ask. */
  accepts(incoming: IncomingMessage): boolean;
  /** @returns the error to refuse it with */
  upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<HttpError | undefined>;
  /** Closes the connections when they are idle, and accepts no others. */
  close(): void;
  destroy(): void;
}

/** How long a client may take for the TLS handshake, in ms. */
const handshakeTimeoutMs = 20_000;

export interface HttpServerOptions extends ServerOptions {
  readonly upgrades?: UpgradeHandler | undefined;
  /** Serves HTTPS with this certificate. Default: HTTP. */
  readonly tls?: Pick<SecureContextOptions, 'cert' | 'key'> | undefined;
  readonly serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void;
  /** Returns headers of the response, whatever it is. */
  readonly responseHeaders?: (incoming: IncomingMessage) => Readonly<Record<string, string>>;
  /** Checked before anything else; returns the refusal, if any. */
  readonly guard?: (incoming: IncomingMessage) => RefusedRequest | undefined;
  /**
   * Writes a refusal in the error format of the listener.
   * @param target of the request; empty where it could not be read
   */
  readonly writeRefusal: (refused: RefusedRequest, target: string) => WrittenRefusal;
}

/** How long a client may take to close the connection after a refusal, in ms. */
const lingerMs = 2000;

/**
 * An HTTP server that answers every request with a request id and an error body, including requests that Node refuses
 * without either, and clients that close their write side after a whole request.
 */
export function createHttpServer({
  serve,
  guard,
  responseHeaders,
  writeRefusal,
  upgrades,
  tls,
  ...options
}: HttpServerOptions): Server | TlsServer {
  /** Unanswered requests of a connection, in order. */
  const open = new WeakMap<Duplex, Set<{ incoming: IncomingMessage; outgoing: ServerResponse }>>();
  const refuse = (incoming: IncomingMessage, outgoing: ServerResponse, refused: RefusedRequest) => {
    const { headers, body } = writeRefusal(refused, incoming.url ?? '');
    outgoing.writeHead(refused.status, { ...headers, ...framing(body) });
    outgoing.end(body);
    incoming.resume();
  };
  const answer = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const request = { incoming, outgoing };
    const requests = open.get(incoming.socket) ?? new Set();
    open.set(incoming.socket, requests.add(request));
    outgoing.once('close', () => requests.delete(request));
    for (const [name, value] of Object.entries(responseHeaders?.(incoming) ?? {}))
      outgoing.setHeader(name, value);
    const refusal = guard?.(incoming) ?? checkTarget(incoming);
    if (refusal) refuse(incoming, outgoing, refusal);
    else serve(incoming, outgoing);
  };
  const httpOptions = {
    ...options,
    // Node's check of the Host header would send a 400 without a body.
    requireHostHeader: false,
    shouldUpgradeCallback: (incoming: IncomingMessage) => upgrades?.accepts(incoming) === true,
  };
  const server = tls
    ? createTlsServer(
        {
          ...httpOptions,
          ...tls,
          handshakeTimeout: options.headersTimeout ?? handshakeTimeoutMs,
          // Given to the sockets, as `node:http` does.
          allowHalfOpen: true,
        },
        answer,
      )
    : createServer(httpOptions, answer);
  const refuseRaw = (
    socket: Duplex,
    refused: RefusedRequest,
    { incoming, outgoing }: { incoming?: IncomingMessage; outgoing?: ServerResponse } = {},
  ) => {
    const { headers, body } = writeRefusal(refused, incoming?.url ?? '');
    const all = { ...outgoing?.getHeaders(), ...headers, ...refused.headers, ...framing(body) };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}\r\n`);
    const { status } = refused;
    socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`);
    socket.end();
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // The handshake failed, so nothing can be written that the client could read.
    if ('secureConnecting' in socket && socket.secureConnecting === true) {
      socket.destroy();
      return;
    }
    const [first, ...others] = [...(open.get(socket) ?? [])].filter(
      ({ outgoing }) => !outgoing.writableFinished,
    );
    const isGone = error.code === 'ECONNRESET' || error.code === 'EPIPE';
    // A refusal written in the middle of a response would be read as part of it, and one written before a pending
    // response would be read as that response.
    const isAnswering = first?.outgoing.headersSent === true || others.length > 0;
    if (socket.destroyed || !socket.writable || isGone || isAnswering) socket.destroy();
    else refuseRaw(socket, refusalOfParserError(error.code), first);
  });
  server.on('checkExpectation', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const expected = (incoming.headers.expect ?? '').slice(0, 80);
    refuse(incoming, outgoing, {
      status: 417,
      code: 'expectation_failed',
      message: `'Expect: ${expected}' is not supported; leave it out.`,
    });
  });
  server.on('connect', (_: IncomingMessage, socket: Duplex) => {
    socket.on('error', () => socket.destroy());
    refuseRaw(socket, {
      status: 405,
      code: 'method_not_allowed',
      message: 'CONNECT is not supported: this is not a proxy.',
    });
  });
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    const destroy = () => socket.destroy();
    socket.on('error', destroy);
    const refusal = guard?.(incoming) ?? checkTarget(incoming);
    if (refusal) refuseRaw(socket, refusal, { incoming });
    else
      void upgrades?.upgrade(incoming, socket, head).then((error) => {
        if (error) refuseRaw(socket, toRefusal(error), { incoming });
        else socket.off('error', destroy);
      });
  });
  answerHalfClosed(server);
  return server;
}

const toRefusal = ({ status, code = '', message, headers }: HttpError): RefusedRequest => ({
  status,
  code,
  message,
  headers,
});

const framing = (body: string) => ({ 'content-length': Buffer.byteLength(body), connection: 'close' });

export const unreadableRequest: RefusedRequest = {
  status: 400,
  code: 'bad_request',
  message: 'This is not an HTTP request that can be read.',
};

/** Maps an error of Node's HTTP parser to a refusal. @param code of the error */
function refusalOfParserError(code: string | undefined): RefusedRequest {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return {
        status: 431,
        code: 'headers_too_large',
        message: `The headers are larger than ${maxHeaderSize} bytes.`,
      };
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return {
        status: 413,
        code: 'body_too_large',
        message: 'The extensions of a chunk of the body are too large.',
      };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, code: 'request_timeout', message: 'The request did not arrive in time.' };
    default:
      return unreadableRequest;
  }
}

/** Refuses a request whose target and Host header form no valid URL; the application could not process it. */
function checkTarget({ url = '', headers: { host } }: IncomingMessage): RefusedRequest | undefined {
  const badTarget = (message: string): RefusedRequest => ({
    status: 400,
    code: 'bad_request_target',
    message,
  });
  const isAbsolute = /^https?:\/\//i.test(url);
  if (!isAbsolute && !url.startsWith('/'))
    return badTarget(`The request's target is '${url.slice(0, 100)}'; send a path, as /health.`);
  if (url.split('?', 1)[0]?.includes('\\'))
    return badTarget(`The request's path has a backslash; write it as %5C.`);
  if (isAbsolute && !URL.canParse(url))
    return badTarget(`The request's target '${url.slice(0, 100)}' is not a URL; send a path, as /health.`);
  if (host === undefined || isAbsolute || URL.canParse(`http://${host}/`)) return undefined;
  return {
    status: 400,
    code: 'bad_host_header',
    message: `The Host header is '${host.slice(0, 100)}'; send a name, with a port of at most 65535 where it needs one.`,
  };
}
