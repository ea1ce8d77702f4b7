import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import { parseTraceparent, noopTracer, type Tracer, type TraceSpan } from '../tracing/index.ts';
import { type AdmissionSlot, readAdmission, withAdmission } from './admission.ts';
import type { Cors } from './cors.ts';
import { OutgoingResponse, deliver } from './deliver.ts';
import { Deadline } from './deadline.ts';
import { endingOf } from './ending.ts';
import { ClientGone, type Envelope, errorResponse, hostEnvelope, HttpError } from './error.ts';
import { type Exchange, type NodeBindings, openExchange } from './exchange.ts';
import { newHostRequestId } from './request-id.ts';
import { readRawBody, readRouteBody, readTextBody, refuseForeignPage } from './route-body.ts';
import type { AccessControl, Caller, Gate, Plane, RequestHead, Route } from './route.ts';
import { honoPath, mount } from './router.ts';
import { framesOf, streamEnd } from './stream.ts';

export interface AppOptions {
  readonly planes: readonly Plane[];
  /** Authenticates and authorizes requests. */
  readonly access: AccessControl;
  /** Aborted when the host stops; its reason is the error of requests in flight. */
  readonly stopSignal: AbortSignal;
  /** Called for faults of the host, which are answered with a 500 and the request id. */
  readonly onFault: (requestId: string, error: unknown) => void;
  /** Traces completions. Default: no tracing. */
  readonly watch?: Tracer;
  /** Which pages of other origins may send requests. Default: none. */
  readonly cors?: Cors | undefined;
}

interface AppEnv extends NodeBindings {
  Variables: { exchange: Exchange; caller: Caller };
}

interface PlaneRoute extends Route {
  readonly plane: Plane;
}

/** Creates the HTTP application of the planes: routing, request ids, bodies, error envelopes, 404 and 405. */
export function createApp({
  planes,
  access,
  stopSignal,
  onFault,
  watch = noopTracer,
  cors,
}: AppOptions): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  const envelopeOf = createEnvelopeLookup(planes);
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
  const operatorCheckingRoutes = new Set(
    routes.filter((route) => route.checksOperatorItself).map((route) => `${route.method} ${honoPath(route)}`),
  );

  app.use(async (context, next) => {
    const requestId = newHostRequestId();
    context.set('exchange', openExchange(context, requestId, cors));
    await next();
    if (context.res !== RESPONSE_ALREADY_SENT)
      setCommonHeaders(context.res.headers, context.req.method, requestId);
  });
  // Runs before anything else, also for paths that do not exist.
  app.use(async (context, next) => {
    const isOperatorCheckDeferred = matchedRoutes(context).some((matched) =>
      operatorCheckingRoutes.has(`${matched.method} ${matched.path}`),
    );
    const request = headOf(context.get('exchange'));
    context.set('caller', await access.authenticate(request, { isOperatorCheckDeferred }));
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
    absent: planes.flatMap((plane) => plane.absentRoutes ?? []),
    hints: { suggest: (path) => `did you mean ${path}?`, otherwise: 'GET /openapi.json lists every route.' },
    refuse: (error, path, context) => refuse(error, path, context.get('exchange')),
    async handle(route, context) {
      const { plane } = route;
      const exchange = context.get('exchange');
      const authenticated = context.get('caller');
      const gate = route.gate ?? plane.gate;
      const caller = gate ? await access.authorizeGate(gate, authenticated, headOf(exchange)) : authenticated;
      access.requireRouteScope(caller, plane.name, route);
      const slot: AdmissionSlot = {};
      return withAdmission(slot, async () => {
        const response = await handleRequest(route, exchange, {
          caller,
          params: context.req.param(),
          stopSignal,
          slot,
          asHttpError: (error) => asHttpError(error, exchange.requestId),
          watch,
          async authorize(extraGate) {
            const head = headOf(exchange);
            const again = await access.authenticate(head, { renews: false });
            const needed = extraGate ?? gate;
            const allowed = needed
              ? await access.authorizeGate(needed, again, head, { renews: false })
              : again;
            access.requireRouteScope(allowed, plane.name, route);
            return allowed;
          },
        });
        const frames = exchange.outgoing && framesOf(response);
        if (!frames) return response;
        setCommonHeaders(response.headers, exchange.method, exchange.requestId);
        const head = Object.fromEntries(response.headers);
        // A stream may have no end, and its frames are not sent.
        if (exchange.method === 'HEAD') frames.cancel();
        const body = exchange.method === 'HEAD' ? '' : frames;
        return deliver(new OutgoingResponse(response.status, head, body), {
          outgoing: exchange.outgoing,
          disconnectSignal: exchange.disconnectSignal,
          onFault: (error) => onFault(exchange.requestId, error),
        });
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

function setCommonHeaders(headers: Headers, method: string, requestId: string): void {
  headers.set('x-request-id', requestId);
  // Anthropic's clients read this header.
  headers.set('request-id', requestId);
  headers.set('x-content-type-options', 'nosniff');
  // Answers are data of whoever sent the token or the cookie: neither a browser's disk nor a proxy keeps them.
  if ((method === 'GET' || method === 'HEAD') && !headers.has('cache-control'))
    headers.set('cache-control', 'no-store');
}

/** Returns the error envelope of a path: that of its plane, else the native one. */
export const createEnvelopeLookup =
  (planes: readonly Plane[]) =>
  (path: string): Envelope =>
    planes.find(({ prefixes }) => prefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`)))
      ?.envelope ?? hostEnvelope;

async function* noBytes(): AsyncGenerator<Uint8Array> {}

interface RequestOptions {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly stopSignal: AbortSignal;
  /** Where the admission of a completion is put. */
  readonly slot: AdmissionSlot;
  readonly asHttpError: (error: unknown) => HttpError;
  readonly watch: Tracer;
  readonly authorize: (gate?: Gate) => Promise<Caller>;
}

const headOf = ({ method, path, headers, remoteAddress }: Exchange): RequestHead => ({
  method,
  path,
  headers: headers(),
  remoteAddress,
});

async function handleRequest(
  route: Route,
  exchange: Exchange,
  { caller, params, stopSignal, slot, asHttpError, watch, authorize }: RequestOptions,
): Promise<Response> {
  const { by, isLocal, scope } = caller;
  const { requestId, disconnectSignal } = exchange;
  const span = beginSpan(route, exchange, by, watch);
  const disconnect = new AbortController();
  const finished = Promise.withResolvers<void>();
  const abortRequest = () => disconnect.abort(new ClientGone());
  if (disconnectSignal.aborted) abortRequest();
  else disconnectSignal.addEventListener('abort', abortRequest, { once: true });
  const deadline = new Deadline();
  const signal = AbortSignal.any([disconnect.signal, stopSignal, deadline.signal]);
  try {
    signal.throwIfAborted();
    const headers = exchange.headers();
    if (route.completion) {
      slot.admission = readAdmission(caller, { headers, remoteAddress: exchange.remoteAddress });
      deadline.start(slot.admission.timeoutMs);
    }
    await route.beforeBody?.({ params, headers, by, isLocal });
    if (route.method === 'POST' && !route.body) refuseForeignPage(exchange);
    const body = await readRouteBody(exchange, route);
    if (span) span.attributes.stream = streamOf(body) ?? span.attributes.stream;
    const bytes = route.rawBody ? readRawBody(exchange, route.rawBody.limitBytes) : noBytes();
    let text = '';
    if (route.textBody) {
      const textOrBytes = await readTextBody(exchange, route.textBody.limitBytes);
      if (typeof textOrBytes !== 'string') {
        finished.resolve();
        return route.textBody.respondNotText(textOrBytes);
      }
      text = textOrBytes;
    }
    const query = new URL(exchange.url()).searchParams;
    const common = {
      params,
      query,
      text,
      headers,
      by,
      isLocal,
      signal,
      finished: finished.promise,
      ...(scope ? { scope } : {}),
    };
    const response = await route.handle({ body, bytes, ...common, requestId, asHttpError, authorize, span });
    const { status } = response;
    const finish = (failure: unknown) => {
      deadline.clear();
      span?.end(
        failure === undefined ? { outcome: 'ok', status } : endingOf(failure, span.attributes, status),
      );
      finished.resolve();
    };
    const end = streamEnd(response);
    if (end) void end.then(finish);
    else finish(undefined);
    return response;
  } catch (error) {
    // The body was truncated, or generation stopped because the client disconnected.
    const failure: unknown = disconnect.signal.aborted ? disconnect.signal.reason : error;
    deadline.clear();
    span?.end(endingOf(failure, span.attributes));
    finished.resolve();
    throw failure;
  }
}

/** Begins the span of a completion route. */
function beginSpan(
  { completion }: Route,
  { requestId, header }: Exchange,
  by: string,
  watch: Tracer,
): TraceSpan<'completion'> | undefined {
  if (!completion) return undefined;
  const { wire, operation, streams: stream = false } = completion;
  const traceparent = parseTraceparent(header('traceparent'));
  return watch.startSpan('completion', requestId, { wire, operation, by, stream }, { traceparent });
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
