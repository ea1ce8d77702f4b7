import { getRequestListener } from '@hono/node-server';
import { createHttpServer, type RefusedRequest, unreadableRequest, type WrittenRefusal } from './server.ts';
import { type Listening, listening } from './listening.ts';
import type { HostGuard } from './host-guard.ts';
import { type Envelope, hostEnvelope, HttpError } from './error.ts';
import { newHostRequestId } from './request-id.ts';

/**
 * How long an idle connection is kept, in ms. Longer than clients and proxies keep theirs, mostly 60 s: whoever closes
 * first must not be the host, whose close may cross a request on its way.
 */
const keepAliveMs = 65_000;

export interface ListenOptions {
  /** How the plane of a path writes what is refused before the app has it. Default: as the native planes do. */
  readonly envelopeOf?: (path: string) => Envelope;
  /** How long the head of a request, and all of it, may take to arrive, in ms. Default: Node's own limits. */
  readonly headersMs?: number;
  readonly requestMs?: number;
}

/** Takes the port (0: a free one) and serves the app behind the guard. Rejects with Node's error when the port is in use. */
export async function listen(
  app: { fetch: (request: Request, env: object) => Response | Promise<Response> },
  guard: HostGuard,
  address: { host: string; port: number },
  { envelopeOf = () => hostEnvelope, headersMs, requestMs }: ListenOptions = {},
): Promise<Listening> {
  let closing = false;
  const writeRefusal = ({ status, code, message }: RefusedRequest, target: string): WrittenRefusal => {
    const path = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)[0] ?? '';
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
  };
  const serve = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
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
    writeRefusal,
    guard: ({ rawHeaders, url }) => guard(rawHeaders, url ?? ''),
    serve(incoming, outgoing) {
      if (closing) outgoing.setHeader('connection', 'close');
      void serve(incoming, outgoing);
    },
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
