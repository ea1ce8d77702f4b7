import { getRequestListener } from '@hono/node-server';
import { type Envelope, HttpError, hostEnvelope } from './error.ts';
import type { HostGuard } from './host-guard.ts';
import { type Listening, listening } from './listening.ts';
import { newHostRequestId } from './request-id.ts';
import { createHttpServer, type RefusedRequest, unreadableRequest, type WrittenRefusal } from './server.ts';

export interface App {
  readonly fetch: (request: Request, env: object) => Response | Promise<Response>;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ListenerOptions {
  /** How long the head of a request, and all of it, may take to arrive, in ms. Default: Node's own limits. */
  readonly headersMs?: number | undefined;
  readonly requestMs?: number | undefined;
  /**
   * How long an idle connection is kept, in ms. Default: longer than clients and proxies keep theirs, mostly 60 s: whoever
   * closes first must not be the server, whose close may cross a request on its way.
   */
  readonly keepAliveMs?: number | undefined;
  readonly guard?: HostGuard;
  /** Writes what is refused before the app has it. @param path of the request; empty where it could not be read */
  readonly writeRefusal: (refused: RefusedRequest, path: string) => WrittenRefusal;
}

/** Takes the port (0: a free one) and serves the app. Rejects with Node's error where it cannot be had. */
export async function listenOn(
  address: Address,
  app: App,
  { headersMs, requestMs, keepAliveMs = 65_000, guard, writeRefusal }: ListenerOptions,
): Promise<Listening> {
  let isClosing = false;
  const serve = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
    // Of requests without a Host header, as health checks of HTTP/1.0 are.
    hostname: 'localhost',
    // Its own answers have neither an id nor a body.
    errorHandler() {
      const { headers, body } = writeRefusal(unreadableRequest, '');
      return new Response(body, { status: unreadableRequest.status, headers });
    },
  });
  const server = createHttpServer({
    keepAliveTimeout: keepAliveMs,
    ...(headersMs === undefined
      ? {}
      : { headersTimeout: headersMs, connectionsCheckingInterval: Math.min(1000, headersMs) }),
    ...(requestMs === undefined ? {} : { requestTimeout: requestMs }),
    // Small chunks of a stream go out as they are.
    noDelay: true,
    writeRefusal: (refused, target) =>
      writeRefusal(refused, target.replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)[0] ?? ''),
    ...(guard ? { guard: ({ rawHeaders, url }) => guard(rawHeaders, url ?? '') } : {}),
    serve(incoming, outgoing) {
      if (isClosing) outgoing.setHeader('connection', 'close');
      void serve(incoming, outgoing);
    },
  });
  const open = await listening(server, address);
  return {
    ...open,
    close() {
      isClosing = true;
      return open.close();
    },
  };
}

export interface ListenOptions extends Pick<ListenerOptions, 'headersMs' | 'requestMs'> {
  /** How the plane of a path writes what is refused before the app has it. Default: as the native planes do. */
  readonly envelopeOf?: (path: string) => Envelope;
}

/** Serves the planes behind the guard. */
export const listen = (
  app: App,
  guard: HostGuard,
  address: Address,
  { envelopeOf = () => hostEnvelope, ...limits }: ListenOptions = {},
): Promise<Listening> =>
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
