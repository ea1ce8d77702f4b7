import { Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import { traceparentOf, unwatched, type Watch } from '../watch/index.ts';
import type { Access, Caller } from '../planes/access.ts';
import { readJsonBody, readRawBody, readTextBody, refuseForeignPage } from './body.ts';
import { meantPath } from './did-you-mean.ts';
import { endingOf } from '../planes/ending.ts';
import { ClientGone, type Envelope, hostEnvelope, HttpError, errorResponse } from './error.ts';
import { newHostRequestId } from './request-id.ts';
import type { Plane, Route } from './route.ts';
import { neededScopes } from '../planes/scopes.ts';
import { streamEnd } from './stream.ts';

export interface AppOptions {
  readonly planes: readonly Plane[];
  /** Who may come in. */
  readonly access: Access;
  /** Aborted when the host stops; its reason is what requests in flight are refused with. */
  readonly stopping: AbortSignal;
  /** Hears of faults of ours: a 500 with its request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
  /** Hears of the completions. Default: nobody. */
  readonly watch?: Watch;
}

interface Setting {
  Variables: { requestId: string; caller: Caller };
  /** Node's own request, where there is one. */
  Bindings: { incoming?: { url?: string; socket?: { remoteAddress?: string } } };
}

/** One HTTP application over the planes: routing, request ids, bodies, error envelopes, 404 and 405. */
export function createApp({
  planes,
  access,
  stopping,
  onFault,
  watch = unwatched,
}: AppOptions): Hono<Setting> {
  const app = new Hono<Setting>();
  const envelopeOf = envelopesOf(planes);
  const asHttpError = (error: unknown, requestId: string): HttpError => {
    if (error instanceof HttpError) return error;
    onFault(requestId, error);
    return new HttpError(
      500,
      'internal_error',
      `The host failed on this request; its log names ${requestId}.`,
    );
  };

  const judgesOperator = new Set(
    planes
      .flatMap(({ routes }) => routes)
      .filter((route) => route.judgesOperator)
      .map((route) => `${route.method} ${honoPath(route)}`),
  );

  app.use(async (context, next) => {
    const requestId = newHostRequestId();
    context.set('requestId', requestId);
    await next();
    context.res.headers.set('x-request-id', requestId);
    // Anthropic's clients know it by this name.
    context.res.headers.set('request-id', requestId);
    context.res.headers.set('x-content-type-options', 'nosniff');
  });
  // Before anything else is said: also of paths that are not there.
  app.use(async (context, next) => {
    const { method, path, raw } = context.req;
    const remoteAddress = context.env?.incoming?.socket?.remoteAddress;
    const isOperatorJudgedLater = matchedRoutes(context).some((matched) =>
      judgesOperator.has(`${matched.method} ${matched.path}`),
    );
    const asked = { method, path, headers: raw.headers, remoteAddress };
    context.set('caller', await access.enter(asked, { isOperatorJudgedLater }));
    await next();
  });
  app.use((context, next) => {
    refuseDotSegments(context.env?.incoming?.url ?? '');
    return next();
  });

  const absent = planes.flatMap((plane) => plane.absent ?? []);
  for (const { method, path, why } of absent) {
    app.on(method, path, () => {
      throw new HttpError(404, 'not_found', `There is no ${method} ${path}: ${why}.`);
    });
  }
  const methods = new Map<string, string[]>();
  for (const { gate, needed, ...route } of planes.flatMap(gated)) {
    const path = honoPath(route);
    methods.set(path, [
      ...(methods.get(path) ?? []),
      ...(route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]),
    ]);
    // Hono looks for a `GET` when a `HEAD` comes.
    app.on(route.method === 'HEAD' ? 'GET' : route.method, path, async (context, next) => {
      if (route.method === 'HEAD' && context.req.method !== 'HEAD') return await next();
      const { raw } = context.req;
      const entered = context.get('caller');
      const requestId = context.get('requestId');
      const caller = gate ? await access.pass(gate, entered, raw.headers) : entered;
      access.permit(caller, needed);
      return await answer(route, raw, {
        caller,
        params: context.req.param(),
        stopping,
        requestId,
        asHttpError: (error) => asHttpError(error, requestId),
        watch,
      });
    });
  }
  for (const [path, allowed] of methods) {
    app.all(path, ({ req }) => {
      const message = `${req.method} does not apply to ${req.path}; use ${allowed.join(' or ')}.`;
      throw new HttpError(405, 'method_not_allowed', message, { headers: { allow: allowed.join(', ') } });
    });
  }

  const meant = meantPath(
    planes.flatMap((plane) => plane.routes),
    absent.map(({ path }) => path),
  );
  app.notFound((context) => {
    const { req } = context;
    const other = meant(req.path);
    const hint = other === undefined ? 'GET /openapi.json lists every route.' : `did you mean ${other}?`;
    const message = `There is no ${req.path.slice(0, 200)}; ${hint}`;
    const problem = new HttpError(404, 'not_found', message);
    return errorResponse(problem, envelopeOf(req.path), context.get('requestId'), req.path);
  });
  app.onError((error, context) => {
    // The status is for the log only: the connection is gone.
    if (error instanceof ClientGone) return new Response(null, { status: 499 });
    const requestId = context.get('requestId');
    const { path } = context.req;
    return errorResponse(asHttpError(error, requestId), envelopeOf(path), requestId, path);
  });
  return app;
}

/** How what is refused on a path is written: as its plane does, else as the native planes do. */
export const envelopesOf =
  (planes: readonly Plane[]) =>
  (path: string): Envelope =>
    planes.find(({ prefixes }) => prefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`)))
      ?.envelope ?? hostEnvelope;

/** A plane's routes, each with what it asks of who comes. */
const gated = ({ name, routes, gate }: Plane) =>
  routes.map((route) => ({ ...route, gate: route.gate ?? gate, needed: neededScopes(name, route) }));

async function* noBytes(): AsyncGenerator<Uint8Array> {}

interface Circumstances {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly stopping: AbortSignal;
  readonly requestId: string;
  readonly asHttpError: (error: unknown) => HttpError;
  readonly watch: Watch;
}

async function answer(
  route: Route,
  request: Request,
  { caller: { by, local }, params, stopping, requestId, asHttpError, watch }: Circumstances,
): Promise<Response> {
  const { completion } = route;
  const traceparent = traceparentOf(request.headers.get('traceparent'));
  const work =
    completion &&
    watch.begin(
      'completion',
      requestId,
      { wire: completion.wire, operation: completion.operation, by, stream: completion.streams ?? false },
      { traceparent },
    );
  const left = new AbortController();
  const over = Promise.withResolvers<void>();
  const leave = () => left.abort(new ClientGone());
  if (request.signal.aborted) leave();
  else request.signal.addEventListener('abort', leave, { once: true });
  const signal = AbortSignal.any([left.signal, stopping]);
  try {
    signal.throwIfAborted();
    await route.before?.({ params, headers: request.headers, by, local });
    if (route.method === 'POST' && !route.body) refuseForeignPage(request);
    const body = route.body ? await readJsonBody(request, { ...route, body: route.body }) : undefined;
    if (work) work.facts.stream = streamOf(body) ?? work.facts.stream;
    const bytes = route.rawBody ? readRawBody(request, route.rawBody.limitBytes) : noBytes();
    let text = '';
    if (route.textBody) {
      const read = await readTextBody(request, route.textBody.limitBytes);
      if (typeof read !== 'string') {
        over.resolve();
        return route.textBody.notText(read);
      }
      text = read;
    }
    const query = new URL(request.url).searchParams;
    const about = {
      params,
      query,
      text,
      headers: request.headers,
      by,
      local,
      signal,
      over: over.promise,
      requestId,
      asHttpError,
      work,
    };
    const response = await route.handle({ body, bytes, ...about });
    const { status } = response;
    const end = (broken: unknown) => {
      work?.end(broken === undefined ? { outcome: 'ok', status } : endingOf(broken, work.facts, status));
      over.resolve();
    };
    const streaming = streamEnd(response);
    if (streaming) void streaming.then(end);
    else end(undefined);
    return response;
  } catch (error) {
    // A body cut short, or a generation that stopped because nobody reads it.
    const broken: unknown = left.signal.aborted ? left.signal.reason : error;
    work?.end(endingOf(broken, work.facts));
    over.resolve();
    throw broken;
  }
}

/** What the body of a completion says. */
const streamOf = (body: unknown): boolean | undefined =>
  (body as { readonly stream?: boolean | null } | undefined)?.stream ?? undefined;

/** `/v1/models/{id}` to `/v1/models/:id`. */
export function honoPath({ path, rest }: Pick<Route, 'path' | 'rest'>): string {
  const named = path.replaceAll(/\{(\w+)\}/g, ':$1');
  return rest ? `${named}{[^]*}` : named;
}

/**
 * Refuses a target such as `/lab/v1/configs/%2e%2e`: whoever parses it as a URL climbs, and the request would mean
 * another route than the one that was written.
 */
function refuseDotSegments(target: string): void {
  if (!/[/\\](?:\.|%2e){1,2}(?:[/\\?#]|$)/i.test(target.split('?')[0] ?? '')) return;
  throw new HttpError(400, 'unsafe_path', "The path has a segment '.' or '..'; write it without.");
}
