import { getRequestListener } from '@hono/node-server';
import {
  createHttpServer,
  type RefusedRequest,
  unreadableRequest,
  type WrittenRefusal,
} from '../../http/server.ts';
import { type Listening, listening } from '../../http/listening.ts';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyAt } from './answers.ts';
import { newReceipt } from './receipt.ts';

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
      const { body, headers } = writeRefusal(unreadableRequest, '');
      return new Response(body, { status: unreadableRequest.status, headers });
    },
  });
  const server = createHttpServer({
    headersTimeout: headersMs ?? patience.headersMs,
    requestTimeout: requestMs ?? patience.requestMs,
    keepAliveTimeout: keepAliveMs ?? patience.keepAliveMs,
    connectionsCheckingInterval: Math.min(1000, headersMs ?? patience.headersMs),
    // Small chunks of a stream go out as they are.
    noDelay: true,
    writeRefusal,
    serve(incoming, outgoing) {
      if (closing) outgoing.setHeader('connection', 'close');
      void serve(incoming, outgoing);
    },
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

function writeRefusal({ status, code, message }: RefusedRequest, target: string): WrittenRefusal {
  const error = new WireError(status, 'invalid_request_error', message, { code });
  const path = target.replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)[0] ?? '';
  return errorAnswer(newReceipt(), error, errorBodyAt(path));
}
