import type { Context, Hono } from 'hono';
import { meantPath } from './did-you-mean.ts';
import { HttpError } from './error.ts';
import type { NodeBindings } from './exchange.ts';

/** Method and path of a route. */
export interface Endpoint {
  /** `GET` also answers `HEAD`; `HEAD` alone is for a path without a `GET`. */
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  /** Path template in OpenAPI syntax, such as `/v1/models/{id}`. */
  readonly path: string;
  /** The last parameter takes the rest of the path, which may be empty or contain slashes. */
  readonly rest?: true;
}

/** A route of a public API that is not served, although the parameter of another route would match its path. */
export interface AbsentRoute extends Pick<Endpoint, 'method' | 'path'> {
  /** The reason and the alternative; completes the sentence `There is no POST /v1/responses/compact: ...`. */
  readonly why: string;
}

export interface RouterOptions<Route extends Endpoint, Setting extends NodeBindings> {
  readonly routes: readonly Route[];
  readonly absent?: readonly AbsentRoute[];
  /** Prefix under which the routes are mounted. */
  readonly basePath?: string;
  /** Pattern of a path parameter. Default: one segment. */
  readonly segment?: string;
  readonly handle: (route: Route, context: Context<Setting>) => Response | Promise<Response>;
  /** Hints of the 404 for a path without a route. */
  readonly hints: Hints;
  /** Writes the response where no route matches. @param path below the base path */
  readonly refuse: (error: HttpError, path: string, context: Context<Setting>) => Response;
}

interface Hints {
  readonly meant: (path: string) => string;
  /** The hint where no similar route exists. */
  readonly otherwise: string;
}

/** Mounts routes on a Hono application. Requests that match no route get a 404 or 405 with a hint. */
export function mount<Route extends Endpoint, Setting extends NodeBindings>(
  app: Hono<Setting>,
  { routes, absent = [], basePath = '', segment = '', hints, handle, refuse }: RouterOptions<Route, Setting>,
): void {
  const inside = (path: string) => path.slice(basePath.length);
  for (const { method, path, why } of absent) {
    const error = new HttpError(404, 'not_found', `There is no ${method} ${path}: ${why}.`);
    app.on(method, basePath + path, (context) => refuse(error, path, context));
  }
  const methods = new Map<string, Set<string>>();
  for (const route of routes) {
    const { method } = route;
    const pattern = basePath + honoPath(route, segment);
    const known = methods.get(pattern) ?? new Set();
    methods.set(pattern, known);
    for (const one of method === 'GET' ? ['GET', 'HEAD'] : [method]) known.add(one);
    // Hono looks up the `GET` handlers for a `HEAD` request.
    app.on(method === 'HEAD' ? 'GET' : method, pattern, async (context, next) => {
      if (method === 'HEAD' && context.req.method !== 'HEAD') return await next();
      return await handle(route, context);
    });
  }
  for (const [pattern, known] of methods) {
    const allowed = [...known];
    app.all(pattern, (context) => {
      const { method, path } = context.req;
      const message = `${method} does not apply to ${path.slice(0, 200)}; use ${allowed.join(' or ')}.`;
      const headers = { allow: allowed.join(', ') };
      return refuse(new HttpError(405, 'method_not_allowed', message, { headers }), inside(path), context);
    });
  }
  // A parameter of several segments matches any path, so it is no useful hint.
  const told = segment === '' ? routes : routes.filter(({ path }) => !path.includes('{'));
  const noRoute = noSuchRoute({ routes: told, absent, basePath }, hints);
  app.notFound((context) => refuse(noRoute(context.req.path), inside(context.req.path), context));
}

export function noSuchRoute(
  {
    routes,
    absent = [],
    basePath = '',
  }: Pick<RouterOptions<Endpoint, NodeBindings>, 'routes' | 'absent' | 'basePath'>,
  hints: Hints,
): (path: string) => HttpError {
  const meant = meantPath(
    routes,
    absent.map(({ path }) => path),
  );
  return (path) => {
    const other = meant(path.slice(basePath.length));
    const hint = other === undefined ? hints.otherwise : hints.meant(basePath + other);
    return new HttpError(404, 'not_found', `There is no ${path.slice(0, 200)}; ${hint}`);
  };
}

/** Converts `/v1/models/{id}` to `/v1/models/:id`. @param parameterPattern pattern of a parameter */
export function honoPath({ path, rest }: Pick<Endpoint, 'path' | 'rest'>, segment = ''): string {
  const named = path.replaceAll(/\{(\w+)\}/g, `:$1${segment}`);
  return rest ? `${named}{[^]*}` : named;
}
