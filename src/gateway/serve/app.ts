import { Hono } from 'hono';
import { WireError } from '../../wires/core/error.ts';
import { errorAnswer, errorBodyAt, plainErrorBody } from './answers.ts';
import { type Asked, askedOf, type Setting } from './asked.ts';
import { deliver } from '../../http/deliver.ts';
import { stopping } from './in-flight.ts';
import type { GatewayParts } from './parts.ts';
import { noSuchRoute } from './no-such-route.ts';
import { newReceipt } from './receipt.ts';
import { CallerGone } from './request-body.ts';
import { type GatewayRoute, gatewayRoutes } from './routes.ts';
import { endingOf, endingOfStatus, leftEarly, tell } from './told.ts';
import { ownFault } from './work.ts';

/** The gateway as a Hono app of its own; `basePath` where it is mounted in a host. */
export function createGatewayApp(parts: GatewayParts, basePath = ''): Hono<Setting> {
  const app = new Hono<Setting>();
  const routes = gatewayRoutes(parts, basePath);
  for (const { method, path, answer, errorBody = plainErrorBody, priced } of routes)
    app.on(method, basePath + honoPath(path), async (context) => {
      const asked = askedOf(context, path, priced && ((...about) => tell(parts.watch, priced, ...about)));
      const { gone, receipt, told } = asked;
      const way = {
        outgoing: context.env?.outgoing,
        gone,
        onFault: (error: unknown) => parts.onFault(receipt.requestId, error),
      };
      try {
        if (parts.inFlight.stopping) throw stopping();
        const answered = answer(asked, context.req.param());
        parts.inFlight.add(answered, () => cutUnsent(asked));
        const got = await answered;
        if (typeof got.body === 'string')
          told?.end(gone.aborted ? leftEarly(got.status) : endingOfStatus(got.status));
        return deliver(got, way);
      } catch (error) {
        // The status is for nobody: the connection is gone.
        if (error instanceof CallerGone) {
          told?.end(leftEarly(499));
          return new Response(null, { status: 499 });
        }
        const shown = asGatewayError(parts, asked, error);
        told?.end(endingOf(shown));
        // The same bytes on every wire, and nothing of what was known by then: that would tell failures apart.
        if (shown.status === 401)
          return deliver(
            errorAnswer({ ...newReceipt(), requestId: receipt.requestId }, shown, plainErrorBody),
            way,
          );
        return deliver(errorAnswer(receipt, shown, errorBody), way);
      }
    });
  for (const [path, methods] of Map.groupBy(routes, (route: GatewayRoute) => route.path)) {
    const allowed = [
      ...new Set(methods.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))),
    ];
    app.all(basePath + honoPath(path), ({ req }) =>
      refuse(
        path,
        405,
        'method_not_allowed',
        `${req.method} does not apply to ${path}; use ${allowed.join(' or ')}.`,
        {
          allow: allowed.join(', '),
        },
      ),
    );
  }
  const paths = routes.map(({ path }) => path);
  app.notFound(({ req }) => {
    const message = noSuchRoute(req.method, req.path, { basePath, paths });
    return refuse(req.path.slice(basePath.length), 404, 'not_found', message);
  });
  return app;
}

/** Who has not sent all of a request when the gateway stops is not waited for. */
function cutUnsent({ incoming }: Asked): void {
  if (incoming?.complete === false) incoming.destroy();
}

/** `/v1/models/{id}` to `/v1/models/:id{.+}`: ids of models have slashes. */
const honoPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ':$1{.+}');

function refuse(
  path: string,
  status: number,
  code: string,
  message: string,
  headers: Record<string, string> = {},
): Response {
  const error = new WireError(status, 'invalid_request_error', message, { code, headers });
  const { body, headers: all } = errorAnswer(newReceipt(), error, errorBodyAt(path));
  return new Response(body, { status, headers: all });
}

function asGatewayError({ onFault }: GatewayParts, { receipt }: Asked, error: unknown): WireError {
  if (error instanceof WireError) {
    // Of ours to mend, although the caller can be told what it is: a master key that is not configured.
    if (error.code === 'credential_unreadable') onFault(receipt.requestId, error.cause);
    return error;
  }
  onFault(receipt.requestId, error);
  return ownFault(receipt.requestId, error);
}
