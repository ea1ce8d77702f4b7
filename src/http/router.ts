import type { Context, Hono } from 'hono';
import { meantPath } from './did-you-mean.ts';
import { HttpError } from './error.ts';
import type { NodeBindings } from './exchange.ts';

/** What a request is routed by. */
export interface Endpoint {
  /** A `GET` answers `HEAD` too; `HEAD` alone is for a path that has no `GET`. */
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  /** As OpenAPI writes it: `/v1/models/{id}`. */
  readonly path: string;
  /** The last parameter is all that is left of the path: also nothing, and also with slashes. */
  readonly rest?: true;
}

/** A route of a public wire that is not served, although a parameter of another route would take its path. */
export interface AbsentRoute extends Pick<Endpoint, 'method' | 'path'> {
  /** Why, and what to do instead: ends the sentence `There is no POST /v1/responses/compact: ...`. */
  readonly why: string;
}

export interface RouterOptions<Route extends Endpoint, Setting extends NodeBindings> {
  readonly routes: readonly Route[];
  readonly absent?: readonly AbsentRoute[];
  /** Where the routes are mounted. */
  readonly basePath?: string;
  /** What a parameter matches. Default: one segment. */
  readonly segment?: string;
  readonly handle: (route: Route, context: Context<Setting>) => Response | Promise<Response>;
  /** The 404 of a path without a route. */
  readonly hints: Hints;
  /** Writes what no route answers. @param path below the base path */
  readonly refuse: (error: HttpError, path: string, context: Context<Setting>) => Response;
}

interface Hints {
  readonly meant: (path: string) => string;
  /** Where no route is meant. */
  readonly otherwise: string;
}

/** Puts routes on an application; what none of them answers is a 404 or 405 that says what to do. */
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
    // Hono looks for a `GET` when a `HEAD` comes.
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
  // What takes more than a segment is no hint: any path would fit.
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

/** `/v1/models/{id}` to `/v1/models/:id`. @param segment what a parameter matches */
export function honoPath({ path, rest }: Pick<Endpoint, 'path' | 'rest'>, segment = ''): string {
  const named = path.replaceAll(/\{(\w+)\}/g, `:$1${segment}`);
  return rest ? `${named}{[^]*}` : named;
}
