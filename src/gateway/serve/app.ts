import { Hono } from 'hono';
import { deliver } from '../../http/deliver.ts';
import { ClientGone, type HttpError } from '../../http/error.ts';
import { type NodeBindings, openExchange } from '../../http/exchange.ts';
import { mount } from '../../http/router.ts';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyAt, plainErrorBody } from './answers.ts';
import type { Asked } from './asked.ts';
import { stopping } from './in-flight.ts';
import type { GatewayParts } from './parts.ts';
import { newReceipt } from './receipt.ts';
import { gatewayRoutes } from './routes.ts';
import { endingOf, endingOfStatus, leftEarly, tell } from './told.ts';
import { ownFault } from './work.ts';

/** Creates the gateway's Hono app. @param basePath path prefix when the app is mounted in a host */
export function createGatewayApp(parts: GatewayParts, basePath = ''): Hono<NodeBindings> {
  const app = new Hono<NodeBindings>();
  mount(app, {
    routes: gatewayRoutes(parts, basePath),
    basePath,
    // Model ids contain slashes.
    segment: '{.+}',
    hints: hintsOf(basePath),
    refuse,
    async handle({ path, answer, errorBody = plainErrorBody, priced }, context) {
      const receipt = newReceipt();
      const { requestId } = receipt;
      const exchange = openExchange(context, requestId);
      const told = priced && tell(parts.watch, priced, requestId, exchange.header('traceparent'));
      const asked: Asked = { ...exchange, receipt, arrivedAt: performance.now(), route: path, told };
      const { gone, outgoing } = exchange;
      const way = { outgoing, gone, onFault: (error: unknown) => parts.onFault(requestId, error) };
      try {
        if (parts.inFlight.stopping) throw stopping();
        const answered = answer(asked, context.req.param());
        parts.inFlight.add(answered, () => cutUnsent(asked));
        const got = await answered;
        if (typeof got.body === 'string')
          told?.end(gone.aborted ? leftEarly(got.status) : endingOfStatus(got.status));
        return deliver(got, way);
      } catch (error) {
        // Nobody receives this status: the connection is closed.
        if (error instanceof ClientGone) {
          told?.end(leftEarly(499));
          return new Response(null, { status: 499 });
        }
        const shown = asWireError(parts, asked, error);
        told?.end(endingOf(shown));
        // Every 401 has the same bytes on every wire and an empty receipt, so that callers cannot tell its causes apart.
        if (shown.status === 401)
          return deliver(errorAnswer({ ...newReceipt(), requestId }, shown, plainErrorBody), way);
        return deliver(errorAnswer(receipt, shown, errorBody), way);
      }
    },
  });
  return app;
}

/** Hints for the 404 of an unknown path. The usual cause is a base URL with `/v1` twice, or without it. */
export const hintsOf = (basePath: string) => ({
  meant: (path: string) =>
    `did you mean ${path}? The base URL of OpenAI's clients ends with ${basePath}/v1, that of Anthropic's does not.`,
  otherwise: `the routes begin with ${basePath}/v1, as ${basePath}/v1/chat/completions.`,
});

/** Closes the connection of a request whose body is still incomplete when the gateway stops. */
function cutUnsent({ incoming }: Asked): void {
  if (incoming?.complete === false) incoming.destroy();
}

function refuse({ status, code, message, headers }: HttpError, path: string): Response {
  const error = new WireError(status, 'invalid_request_error', message, {
    ...(code === undefined ? {} : { code }),
    headers,
  });
  const { body, headers: all } = errorAnswer(newReceipt(), error, errorBodyAt(path));
  return new Response(body, { status, headers: all });
}

function asWireError({ onFault }: GatewayParts, { receipt }: Asked, error: unknown): WireError {
  if (error instanceof WireError) {
    // The caller is told the cause (a master key is not configured), but only the operator can fix it.
    if (error.code === 'credential_unreadable') onFault(receipt.requestId, error.cause);
    return error;
  }
  onFault(receipt.requestId, error);
  return ownFault(receipt.requestId, error);
}
