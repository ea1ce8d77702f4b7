import { Server as TlsServer, type SecureContextOptions } from 'node:tls';
import { getRequestListener } from '@hono/node-server';
import { type Cors, pathOf } from './cors.ts';
import { type Envelope, HttpError, hostEnvelope } from './error.ts';
import type { HostGuard } from './host-guard.ts';
import { type BoundServer, bindServer } from './listening.ts';
import { newHostRequestId } from './request-id.ts';
import {
  createHttpServer,
  type RefusedRequest,
  unreadableRequest,
  type UpgradeHandler,
  type WrittenRefusal,
} from './server.ts';

export interface App {
  readonly fetch: (request: Request, env: object) => Response | Promise<Response>;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ListenerOptions {
  /** Time limits in ms for receiving the head of a request and the whole request. Default: Node's limits. */
  readonly headersTimeoutMs?: number | undefined;
  readonly requestTimeoutMs?: number | undefined;
  /**
   * How long an idle connection is kept, in ms. The default is longer than the 60 s that most clients and proxies use:
   * if the server closed first, its close could cross a request that is already on its way.
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  readonly guard?: HostGuard;
  /** WebSocket endpoints. */
  readonly upgrades?: UpgradeHandler | undefined;
  /** Serves HTTPS with this certificate. Default: HTTP. */
  readonly tls?: Pick<SecureContextOptions, 'cert' | 'key'> | undefined;
  /** Which pages of other origins may call the app. Default: none, and their preflights reach it. */
  readonly cors?: Cors | undefined;
  /**
   * Writes refusals of requests that do not reach the app.
   * @param path of the request; empty where it could not be read
   */
  readonly writeRefusal: (refused: RefusedRequest, path: string) => WrittenRefusal;
}

export interface ListeningServer extends BoundServer {
  /** Serves new connections with another certificate; open ones go on. */
  setCertificate(pair: Pick<SecureContextOptions, 'cert' | 'key'>): void;
}

/**
 * Binds the port (0 for a free one) and serves the app. Rejects with Node's error where the port cannot be bound.
 */
export async function listenOn(
  address: Address,
  app: App,
  {
    headersTimeoutMs,
    requestTimeoutMs,
    keepAliveTimeoutMs = 65_000,
    guard,
    upgrades,
    cors,
    tls,
    writeRefusal,
  }: ListenerOptions,
): Promise<ListeningServer> {
  let isClosing = false;
  const serve = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
    // Used for requests without a Host header, such as HTTP/1.0 health checks.
    hostname: 'localhost',
    // The listener's own error responses have neither a request id nor a body.
    errorHandler() {
      const { headers, body } = writeRefusal(unreadableRequest, '');
      return new Response(body, { status: unreadableRequest.status, headers });
    },
  });
  const server = createHttpServer({
    keepAliveTimeout: keepAliveTimeoutMs,
    ...(headersTimeoutMs === undefined
      ? {}
      : { headersTimeout: headersTimeoutMs, connectionsCheckingInterval: Math.min(1000, headersTimeoutMs) }),
    ...(requestTimeoutMs === undefined ? {} : { requestTimeout: requestTimeoutMs }),
    // Sends small chunks of a stream at once.
    noDelay: true,
    upgrades,
    tls,
    writeRefusal: (refused, target) => writeRefusal(refused, pathOf(target)),
    ...(cors ? { responseHeaders: (incoming) => cors.responseHeaders(incoming) } : {}),
    guard: (incoming) => guard?.(incoming.rawHeaders, incoming.url ?? '') ?? cors?.refusePreflight(incoming),
    serve(incoming, outgoing) {
      if (isClosing) outgoing.setHeader('connection', 'close');
      // Preflights carry no credentials, so they are answered before authentication.
      const preflight = cors?.preflightHeaders(incoming);
      if (preflight) outgoing.writeHead(204, preflight).end();
      else void serve(incoming, outgoing);
    },
  });
  const bound = await bindServer(server, address);
  return {
    ...bound,
    close() {
      isClosing = true;
      upgrades?.close();
      return bound.close();
    },
    destroyConnections() {
      upgrades?.destroy();
      bound.destroyConnections();
    },
    setCertificate(pair) {
      if (server instanceof TlsServer) server.setSecureContext(pair);
    },
  };
}

export interface ListenOptions
  extends Pick<ListenerOptions, 'headersTimeoutMs' | 'requestTimeoutMs' | 'upgrades' | 'cors' | 'tls'> {
  /**
   * The error envelope for a path, used for refusals before the app. Default: the envelope of the native planes.
   */
  readonly envelopeOf?: (path: string) => Envelope;
}

/** Serves the planes behind the Host-header guard. */
export const listen = (
  app: App,
  guard: HostGuard,
  address: Address,
  { envelopeOf = () => hostEnvelope, ...limits }: ListenOptions = {},
): Promise<ListeningServer> =>
  listenOn(address, app, {
    ...limits,
    guard,
    writeRefusal({ status, code, message }, path) {
      const requestId = newHostRequestId();
      return {
        body: JSON.stringify(envelopeOf(path)(new HttpError(status, code, message), requestId, path)),
        headers: {
          'content-type': 'application/json',
          'x-content-type-options': 'nosniff',
          'x-request-id': requestId,
          'request-id': requestId,
        },
      };
    },
  });
