import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { AppOptions } from './app.ts';
import { type Admission, readAdmission, withAdmission } from './admission.ts';
import { foreignOriginMessage, pathOf } from './cors.ts';
import { Deadline } from './deadline.ts';
import { noopTracer } from '../tracing/index.ts';
import { endingOf } from './ending.ts';
import { ClientGone, HttpError } from './error.ts';
import { newHostRequestId } from './request-id.ts';
import { bodyLimitBytes, type Caller, type Plane, type RequestHead } from './route.ts';
import type { UpgradeHandler } from './server.ts';
import { SocketConnection } from './socket-connection.ts';
import type { SocketRoute, SocketSession } from './socket-route.ts';

const defaultMaxAgeMs = 3_600_000;

export interface SocketsOptions extends AppOptions {
  /** Time limit of a connection, in ms. Default: one hour, as the Open Responses specification has it. */
  readonly maxAgeMs?: number;
}

type PlaneSocketRoute = SocketRoute & { readonly plane: Plane };

/** What a connection is for. */
interface Endpoint {
  readonly route: PlaneSocketRoute;
  readonly session: SocketSession;
  /** From the headers of the request that opened the connection; its time limit is that of each turn. */
  readonly admission: Admission;
}

/** The WebSocket endpoints of the planes. */
export class Sockets implements UpgradeHandler {
  readonly #options: SocketsOptions;
  readonly #routes: ReadonlyMap<string, PlaneSocketRoute>;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: bodyLimitBytes,
    perMessageDeflate: false,
  });
  readonly #connections = new Set<SocketConnection>();
  #isClosing = false;

  constructor(options: SocketsOptions) {
    this.#options = options;
    const routes = options.planes.flatMap((plane) =>
      (plane.sockets ?? []).map((route) => [route.path, { ...route, plane }] as const),
    );
    this.#routes = new Map(routes);
  }

  accepts({ headers, url, method }: IncomingMessage): boolean {
    return (
      method === 'GET' &&
      headers.upgrade?.toLowerCase() === 'websocket' &&
      this.#routes.has(pathOf(url ?? ''))
    );
  }

  async upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<HttpError | undefined> {
    const route = this.#routes.get(pathOf(incoming.url ?? ''));
    if (!route) return undefined;
    try {
      if (this.#isClosing) throw shuttingDownError();
      this.#refuseForeignPage(incoming);
      const { headers, remoteAddress } = headOf(incoming);
      const caller = await this.#authenticate(incoming, route);
      const admission = readAdmission(caller, { headers, remoteAddress });
      const session = route.open(caller);
      this.#server.handleUpgrade(incoming, socket, head, (accepted) =>
        this.#connect(accepted, incoming, { route, session, admission }),
      );
      return undefined;
    } catch (error) {
      return this.#asHttpError(error, newHostRequestId());
    }
  }

  #connect(accepted: WebSocket, incoming: IncomingMessage, { route, session, admission }: Endpoint): void {
    const connection = new SocketConnection(accepted, {
      maxAgeMs: this.#options.maxAgeMs ?? defaultMaxAgeMs,
      writeRefusal: (error) => session.refusal(error),
      onMessage: async (message) => {
        // A token may have been revoked since the last turn.
        const caller = await this.#authenticate(incoming, route).catch((error: unknown) => error);
        if (caller instanceof Error) {
          await sendAll(connection, [session.refusal(this.#asHttpError(caller, newHostRequestId()))]);
          connection.end('policyViolation');
        } else
          await withAdmission({ admission }, () =>
            this.#turn(connection, message, { route, session, admission, caller: caller as Caller }),
          );
      },
    });
    this.#connections.add(connection);
    connection.signal.addEventListener('abort', () => this.#connections.delete(connection));
  }

  /** Answers a message. Never rejects. */
  async #turn(
    connection: SocketConnection,
    message: Buffer,
    { route: { route }, session, admission, caller }: Endpoint & { readonly caller: Caller },
  ): Promise<void> {
    const { stopSignal, watch = noopTracer } = this.#options;
    const requestId = newHostRequestId();
    const { wire, operation } = route.completion ?? { wire: 'responses', operation: 'chat' };
    const span = watch.startSpan(
      'completion',
      requestId,
      { wire, operation, by: caller.by, stream: true },
      { traceparent: undefined },
    );
    const finished = Promise.withResolvers<void>();
    const deadline = new Deadline();
    deadline.start(admission.timeoutMs);
    const signal = AbortSignal.any([connection.signal, stopSignal, deadline.signal]);
    const asHttpError = (error: unknown) => this.#asHttpError(error, requestId);
    try {
      const turn = { ...caller, requestId, signal, finished: finished.promise, span, asHttpError };
      for await (const text of session.answer(message, turn)) await connection.send(text);
      span.end({ outcome: 'ok', status: 200 });
    } catch (error) {
      const failure: unknown = connection.signal.aborted ? connection.signal.reason : error;
      span.end(endingOf(failure, span.attributes));
      if (!(failure instanceof ClientGone)) await sendAll(connection, session.failure(asHttpError(failure)));
    } finally {
      deadline.clear();
      finished.resolve();
    }
  }

  async #authenticate(incoming: IncomingMessage, { plane, route }: PlaneSocketRoute): Promise<Caller> {
    const { access } = this.#options;
    const { headers, remoteAddress } = headOf(incoming);
    const caller = await access.authenticate({
      method: route.method,
      path: pathOf(incoming.url ?? ''),
      headers,
      remoteAddress,
    });
    access.requireRouteScope(caller, plane.name, route);
    return caller;
  }

  /** A browser connects to any host, and names the page's origin. */
  #refuseForeignPage({ url = '', headers: { origin, host } }: IncomingMessage): void {
    if (origin === undefined || (URL.canParse(origin) && new URL(origin).host === host)) return;
    const { cors } = this.#options;
    if (cors?.allows(pathOf(url), origin)) return;
    const message = cors?.refusalMessage(pathOf(url), origin) ?? foreignOriginMessage(origin, false);
    throw new HttpError(403, 'foreign_origin', message);
  }

  #asHttpError(error: unknown, requestId: string): HttpError {
    if (error instanceof HttpError) return error;
    this.#options.onFault(requestId, error);
    return new HttpError(
      500,
      'internal_error',
      `The host failed on this request; its log names ${requestId}.`,
    );
  }

  /** Closes every connection after its turn. */
  close(): void {
    this.#isClosing = true;
    for (const connection of this.#connections) connection.end('goingAway');
  }

  destroy(): void {
    for (const connection of this.#connections) connection.destroy();
  }
}

/** The part of a request that access and admission depend on. */
function headOf({
  headersDistinct,
  socket,
}: IncomingMessage): Pick<RequestHead, 'headers' | 'remoteAddress'> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(headersDistinct))
    for (const one of value ?? []) headers.append(name, one);
  return { headers, remoteAddress: socket.remoteAddress };
}

/** Messages that the client does not take are lost. */
async function sendAll(connection: SocketConnection, messages: readonly string[]): Promise<void> {
  for (const message of messages) await connection.send(message).catch(() => undefined);
}

const shuttingDownError = (): HttpError => new HttpError(503, 'shutting_down', 'The host is shutting down.');
