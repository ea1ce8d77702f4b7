import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import { traceparentOf, unwatched, type Watch, type Work } from '../watch/index.ts';
import { Answer, deliver } from './deliver.ts';
import { endingOf } from './ending.ts';
import { ClientGone, type Envelope, errorResponse, hostEnvelope, HttpError } from './error.ts';
import { type Exchange, type NodeBindings, openExchange } from './exchange.ts';
import { newHostRequestId } from './request-id.ts';
import { readRawBody, readRouteBody, readTextBody, refuseForeignPage } from './route-body.ts';
import type { AccessControl, Caller, Plane, Route } from './route.ts';
import { honoPath, mount } from './router.ts';
import { framesOf, streamEnd } from './stream.ts';

export interface AppOptions {
  readonly planes: readonly Plane[];
  /** Authenticates and authorizes requests. */
  readonly access: AccessControl;
  /** Aborted when the host stops; its reason is the error of requests in flight. */
  readonly stopping: AbortSignal;
  /** Called for faults of the host, which are answered with a 500 and the request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
  /** Traces completions. Default: no tracing. */
  readonly watch?: Watch;
}

interface Setting extends NodeBindings {
  Variables: { exchange: Exchange; caller: Caller };
}

interface PlaneRoute extends Route {
  readonly plane: Plane;
}

/** Creates the HTTP application of the planes: routing, request ids, bodies, error envelopes, 404 and 405. */
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
  const routes = planes.flatMap((plane) => plane.routes.map((route): PlaneRoute => ({ ...route, plane })));
  const judgesOperator = new Set(
    routes.filter((route) => route.judgesOperator).map((route) => `${route.method} ${honoPath(route)}`),
  );

  app.use(async (context, next) => {
    const requestId = newHostRequestId();
    context.set('exchange', openExchange(context, requestId));
    await next();
    if (context.res !== RESPONSE_ALREADY_SENT) nameRequest(context.res.headers, requestId);
  });
  // Runs before anything else, also for paths that do not exist.
  app.use(async (context, next) => {
    const isOperatorJudgedLater = matchedRoutes(context).some((matched) =>
      judgesOperator.has(`${matched.method} ${matched.path}`),
    );
    const { method, path, headers, remoteAddress } = context.get('exchange');
    const request = { method, path, headers: headers(), remoteAddress };
    context.set('caller', await access.enter(request, { isOperatorJudgedLater }));
    await next();
  });
  app.use((context, next) => {
    refuseDotSegments(context.env?.incoming?.url ?? '');
    return next();
  });

  const refuse = (error: HttpError, path: string, exchange: Exchange) =>
    errorResponse(error, envelopeOf(path), exchange.requestId, path);
  mount(app, {
    routes,
    absent: planes.flatMap((plane) => plane.absent ?? []),
    hints: { meant: (path) => `did you mean ${path}?`, otherwise: 'GET /openapi.json lists every route.' },
    refuse: (error, path, context) => refuse(error, path, context.get('exchange')),
    async handle(route, context) {
      const { plane } = route;
      const exchange = context.get('exchange');
      const entered = context.get('caller');
      const gate = route.gate ?? plane.gate;
      const caller = gate ? await access.pass(gate, entered, exchange.headers()) : entered;
      access.permitRoute(caller, plane.name, route);
      const response = await answer(route, exchange, {
        caller,
        params: context.req.param(),
        stopping,
        asHttpError: (error) => asHttpError(error, exchange.requestId),
        watch,
      });
      const frames = exchange.outgoing && framesOf(response);
      if (!frames) return response;
      nameRequest(response.headers, exchange.requestId);
      const head = Object.fromEntries(response.headers);
      return deliver(new Answer(response.status, head, frames), {
        outgoing: exchange.outgoing,
        gone: exchange.gone,
        onFault: (error) => onFault(exchange.requestId, error),
      });
    },
  });
  app.onError((error, context) => {
    // The connection is closed, so only the log sees this status.
    if (error instanceof ClientGone) return new Response(null, { status: 499 });
    const exchange = context.get('exchange');
    return refuse(asHttpError(error, exchange.requestId), exchange.path, exchange);
  });
  return app;
}

function nameRequest(headers: Headers, requestId: string): void {
  headers.set('x-request-id', requestId);
  // Anthropic's clients read this header.
  headers.set('request-id', requestId);
  headers.set('x-content-type-options', 'nosniff');
}

/** Returns the error envelope of a path: that of its plane, else the native one. */
export const envelopesOf =
  (planes: readonly Plane[]) =>
  (path: string): Envelope =>
    planes.find(({ prefixes }) => prefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`)))
      ?.envelope ?? hostEnvelope;

async function* noBytes(): AsyncGenerator<Uint8Array> {}

interface Circumstances {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly stopping: AbortSignal;
  readonly asHttpError: (error: unknown) => HttpError;
  readonly watch: Watch;
}

async function answer(
  route: Route,
  exchange: Exchange,
  { caller, params, stopping, asHttpError, watch }: Circumstances,
): Promise<Response> {
  const { by, local } = caller;
  const { requestId, gone } = exchange;
  const work = begin(route, exchange, by, watch);
  const left = new AbortController();
  const over = Promise.withResolvers<void>();
  const leave = () => left.abort(new ClientGone());
  if (gone.aborted) leave();
  else gone.addEventListener('abort', leave, { once: true });
  const signal = AbortSignal.any([left.signal, stopping]);
  try {
    signal.throwIfAborted();
    const headers = exchange.headers();
    await route.before?.({ params, headers, by, local });
    if (route.method === 'POST' && !route.body) refuseForeignPage(exchange);
    const body = await readRouteBody(exchange, route);
    if (work) work.facts.stream = streamOf(body) ?? work.facts.stream;
    const bytes = route.rawBody ? readRawBody(exchange, route.rawBody.limitBytes) : noBytes();
    let text = '';
    if (route.textBody) {
      const read = await readTextBody(exchange, route.textBody.limitBytes);
      if (typeof read !== 'string') {
        over.resolve();
        return route.textBody.notText(read);
      }
      text = read;
    }
    const query = new URL(exchange.url()).searchParams;
    const about = { params, query, text, headers, by, local, signal, over: over.promise };
    const response = await route.handle({ body, bytes, ...about, requestId, asHttpError, work });
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
    // The body was truncated, or generation stopped because the client disconnected.
    const broken: unknown = left.signal.aborted ? left.signal.reason : error;
    work?.end(endingOf(broken, work.facts));
    over.resolve();
    throw broken;
  }
}

/** Begins the span of a completion route. */
function begin(
  { completion }: Route,
  { requestId, header }: Exchange,
  by: string,
  watch: Watch,
): Work<'completion'> | undefined {
  if (!completion) return undefined;
  const { wire, operation, streams: stream = false } = completion;
  const traceparent = traceparentOf(header('traceparent'));
  return watch.begin('completion', requestId, { wire, operation, by, stream }, { traceparent });
}

/** The `stream` member of a completion body. */
const streamOf = (body: unknown): boolean | undefined =>
  (body as { readonly stream?: boolean | null } | undefined)?.stream ?? undefined;

/**
 * Refuses a target such as `/lab/v1/configs/%2e%2e`. URL parsers resolve dot segments, so the request could match
 * another route than the one written.
 */
function refuseDotSegments(target: string): void {
  if (!/[/\\](?:\.|%2e){1,2}(?:[/\\?#]|$)/i.test(target.split('?')[0] ?? '')) return;
  throw new HttpError(400, 'unsafe_path', "The path has a segment '.' or '..'; write it without.");
}
