import { Hono } from 'hono';
import { deliver } from '../../http/deliver.ts';
import { ClientGone, type HttpError } from '../../http/error.ts';
import { type NodeBindings, openExchange } from '../../http/exchange.ts';
import { mount } from '../../http/router.ts';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyForPath, openaiErrorBody } from './answers.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { stoppingError } from './in-flight.ts';
import type { GatewayServices } from './services.ts';
import { newReceipt } from './receipt.ts';
import { gatewayRoutes } from './routes.ts';
import { spanResultOf, spanResultOfStatus, clientGoneResult, startSpan } from './span.ts';
import { internalError } from './request-context.ts';

/** Creates the gateway's Hono app. @param basePath path prefix when the app is mounted in a host */
export function createGatewayApp(services: GatewayServices, basePath = ''): Hono<NodeBindings> {
  const app = new Hono<NodeBindings>();
  mount(app, {
    routes: gatewayRoutes(services, basePath),
    basePath,
    // Model ids contain slashes.
    parameterPattern: '{.+}',
    hints: routeHints(basePath),
    refuse,
    async handle({ path, answer, errorBody = openaiErrorBody, priced }, context) {
      const receipt = newReceipt();
      const { requestId } = receipt;
      const exchange = openExchange(context, requestId);
      const span = priced && startSpan(services.tracer, priced, requestId, exchange.header('traceparent'));
      const incoming: IncomingRequest = {
        ...exchange,
        receipt,
        arrivedAt: performance.now(),
        route: path,
        span,
      };
      const { disconnectSignal, outgoing } = exchange;
      const delivery = {
        outgoing,
        disconnectSignal,
        onFault: (error: unknown) => services.onFault(requestId, error),
      };
      try {
        if (services.inFlight.isStopping) throw stoppingError();
        const pending = answer(incoming, context.req.param());
        services.inFlight.add(pending, () => closeIncompleteUpload(incoming), incoming);
        const result = await pending;
        if (typeof result.body === 'string')
          span?.end(
            disconnectSignal.aborted ? clientGoneResult(result.status) : spanResultOfStatus(result.status),
          );
        return deliver(result, delivery);
      } catch (error) {
        // Nobody receives this status: the connection is closed.
        if (error instanceof ClientGone) {
          span?.end(clientGoneResult(499));
          return new Response(null, { status: 499 });
        }
        const clientError = toWireError(services, incoming, error);
        span?.end(spanResultOf(clientError));
        // Every 401 has the same bytes on every wire and an empty receipt, so that callers cannot tell its causes apart.
        if (clientError.status === 401)
          return deliver(errorAnswer({ ...newReceipt(), requestId }, clientError, openaiErrorBody), delivery);
        return deliver(errorAnswer(receipt, clientError, errorBody), delivery);
      }
    },
  });
  return app;
}

/** Hints for the 404 of an unknown path. The usual cause is a base URL with `/v1` twice, or without it. */
export const routeHints = (basePath: string) => ({
  suggest: (path: string) =>
    `did you mean ${path}? The base URL of OpenAI's clients ends with ${basePath}/v1, that of Anthropic's does not.`,
  otherwise: `the routes begin with ${basePath}/v1, as ${basePath}/v1/chat/completions; ${basePath}/docs lists them.`,
});

/** Closes the connection of a request whose body is still incomplete when the gateway stops. */
function closeIncompleteUpload({ incoming }: IncomingRequest): void {
  if (incoming?.complete === false) incoming.destroy();
}

function refuse({ status, code, message, headers }: HttpError, path: string): Response {
  const error = new WireError(status, 'invalid_request_error', message, {
    ...(code === undefined ? {} : { code }),
    headers,
  });
  const { body, headers: allHeaders } = errorAnswer(newReceipt(), error, errorBodyForPath(path));
  return new Response(body, { status, headers: allHeaders });
}

function toWireError({ onFault }: GatewayServices, { receipt }: IncomingRequest, error: unknown): WireError {
  if (error instanceof WireError) {
    // The caller is told the cause (a master key is not configured), but only the operator can fix it.
    if (error.code === 'credential_unreadable') onFault(receipt.requestId, error.cause);
    return error;
  }
  onFault(receipt.requestId, error);
  return internalError(receipt.requestId, error);
}
