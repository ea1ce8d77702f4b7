import type { Context, Hono } from 'hono';
import { createPathSuggester } from './did-you-mean.ts';
import { HttpError } from './error.ts';
import type { NodeBindings } from './exchange.ts';

/** Method and path of a route. */
export interface Endpoint {
  /** `GET` also answers `HEAD`; `HEAD` alone is for a path without a `GET`. */
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Path template in OpenAPI syntax, such as `/v1/models/{id}`. */
  readonly path: string;
  /** The last parameter takes the rest of the path, which may be empty or contain slashes. */
  readonly isCatchAll?: true;
}

/** A route of a public API that is not served, although the parameter of another route would match its path. */
export interface AbsentRoute extends Pick<Endpoint, 'method' | 'path'> {
  /** The reason and the alternative; completes the sentence `There is no POST /models/load: ...`. */
  readonly reason: string;
}

export interface RouterOptions<Route extends Endpoint, Env extends NodeBindings> {
  readonly routes: readonly Route[];
  readonly absent?: readonly AbsentRoute[];
  /** Prefix under which the routes are mounted. */
  readonly basePath?: string;
  /** Pattern of a path parameter. Default: one segment. */
  readonly parameterPattern?: string;
  readonly handle: (route: Route, context: Context<Env>) => Response | Promise<Response>;
  /** Hints of the 404 for a path without a route. */
  readonly hints: Hints;
  /** Writes the response where no route matches. @param path below the base path */
  readonly refuse: (error: HttpError, path: string, context: Context<Env>) => Response;
}

interface Hints {
  readonly suggest: (path: string) => string;
  /** The hint where no similar route exists. */
  readonly otherwise: string;
}

/** Mounts routes on a Hono application. Requests that match no route get a 404 or 405 with a hint. */
export function mount<Route extends Endpoint, Env extends NodeBindings>(
  app: Hono<Env>,
  {
    routes,
    absent = [],
    basePath = '',
    parameterPattern = '',
    hints,
    handle,
    refuse,
  }: RouterOptions<Route, Env>,
): void {
  const relativePath = (path: string) => path.slice(basePath.length);
  for (const { method, path, reason } of absent) {
    const error = new HttpError(404, 'not_found', `There is no ${method} ${path}: ${reason}.`);
    app.on(method, basePath + path, (context) => refuse(error, path, context));
  }
  const methods = new Map<string, Set<string>>();
  for (const route of routes) {
    const { method } = route;
    const pattern = basePath + honoPath(route, parameterPattern);
    const allowedMethods = methods.get(pattern) ?? new Set();
    methods.set(pattern, allowedMethods);
    for (const allowedMethod of method === 'GET' ? ['GET', 'HEAD'] : [method])
      allowedMethods.add(allowedMethod);
    // Hono looks up the `GET` handlers for a `HEAD` request.
    app.on(method === 'HEAD' ? 'GET' : method, pattern, async (context, next) => {
      if (method === 'HEAD' && context.req.method !== 'HEAD') return await next();
      return await handle(route, context);
    });
  }
  for (const [pattern, allowedMethods] of methods) {
    const allowed = [...allowedMethods];
    app.all(pattern, (context) => {
      const { method, path } = context.req;
      const message = `${method} does not apply to ${path.slice(0, 200)}; use ${allowed.join(' or ')}.`;
      const headers = { allow: allowed.join(', ') };
      return refuse(
        new HttpError(405, 'method_not_allowed', message, { headers }),
        relativePath(path),
        context,
      );
    });
  }
  // A parameter of several segments matches any path, so it is no useful hint.
  const hintRoutes = parameterPattern === '' ? routes : routes.filter(({ path }) => !path.includes('{'));
  const noRoute = createNotFoundError({ routes: hintRoutes, absent, basePath }, hints);
  app.notFound((context) => refuse(noRoute(context.req.path), relativePath(context.req.path), context));
}

export function createNotFoundError(
  {
    routes,
    absent = [],
    basePath = '',
  }: Pick<RouterOptions<Endpoint, NodeBindings>, 'routes' | 'absent' | 'basePath'>,
  hints: Hints,
): (path: string) => HttpError {
  const suggest = createPathSuggester(
    routes,
    absent.map(({ path }) => path),
  );
  return (path) => {
    const suggestion = suggest(path.slice(basePath.length));
    const hint = suggestion === undefined ? hints.otherwise : hints.suggest(basePath + suggestion);
    return new HttpError(404, 'not_found', `There is no ${path.slice(0, 200)}; ${hint}`);
  };
}

/** Converts `/v1/models/{id}` to `/v1/models/:id`. @param parameterPattern pattern of a parameter */
export function honoPath(
  { path, isCatchAll }: Pick<Endpoint, 'path' | 'isCatchAll'>,
  parameterPattern = '',
): string {
  const pattern = path.replaceAll(/\{(\w+)\}/g, `:$1${parameterPattern}`);
  return isCatchAll ? `${pattern}{[^]*}` : pattern;
}
