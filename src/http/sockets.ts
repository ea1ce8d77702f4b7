import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { AppOptions } from './app.ts';
import { noopTracer } from '../tracing/index.ts';
import { endingOf } from './ending.ts';
import { ClientGone, HttpError } from './error.ts';
import { newHostRequestId } from './request-id.ts';
import { bodyLimitBytes, type Caller, type Plane } from './route.ts';
import type { UpgradeHandler } from './server.ts';
import { SocketConnection } from './socket-connection.ts';
import type { SocketRoute, SocketSession } from './socket-route.ts';

const defaultMaxAgeMs = 3_600_000;

export interface SocketsOptions extends AppOptions {
  /** Time limit of a connection, in ms. Default: one hour, as the Open Responses specification has it. */
  readonly maxAgeMs?: number;
}

type PlaneSocketRoute = SocketRoute & { readonly plane: Plane };

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
      method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket' && this.#routes.has(pathOf(url))
    );
  }

  async upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<HttpError | undefined> {
    const route = this.#routes.get(pathOf(incoming.url));
    if (!route) return undefined;
    try {
      if (this.#isClosing) throw shuttingDownError();
      refuseForeignPage(incoming);
      const session = route.open(await this.#authenticate(incoming, route));
      this.#server.handleUpgrade(incoming, socket, head, (accepted) =>
        this.#connect(accepted, incoming, { route, session }),
      );
      return undefined;
    } catch (error) {
      return this.#asHttpError(error, newHostRequestId());
    }
  }

  #connect(
    accepted: WebSocket,
    incoming: IncomingMessage,
    { route, session }: { readonly route: PlaneSocketRoute; readonly session: SocketSession },
  ): void {
    const connection = new SocketConnection(accepted, {
      maxAgeMs: this.#options.maxAgeMs ?? defaultMaxAgeMs,
      writeRefusal: (error) => session.refusal(error),
      onMessage: async (message) => {
        // A token may have been revoked since the last turn.
        const caller = await this.#authenticate(incoming, route).catch((error: unknown) => error);
        if (caller instanceof Error) {
          await sendAll(connection, [session.refusal(this.#asHttpError(caller, newHostRequestId()))]);
          connection.end('policyViolation');
        } else await this.#turn(connection, message, { route, session, caller: caller as Caller });
      },
    });
    this.#connections.add(connection);
    connection.signal.addEventListener('abort', () => this.#connections.delete(connection));
  }

  /** Answers a message. Never rejects. */
  async #turn(
    connection: SocketConnection,
    message: Buffer,
    {
      route: { route },
      session,
      caller,
    }: { readonly route: PlaneSocketRoute; readonly session: SocketSession; readonly caller: Caller },
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
    const signal = AbortSignal.any([connection.signal, stopSignal]);
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
      finished.resolve();
    }
  }

  async #authenticate(incoming: IncomingMessage, { plane, route }: PlaneSocketRoute): Promise<Caller> {
    const { access } = this.#options;
    const headers = new Headers();
    for (const [name, value] of Object.entries(incoming.headersDistinct))
      for (const one of value ?? []) headers.append(name, one);
    const { remoteAddress } = incoming.socket;
    const caller = await access.authenticate({
      method: route.method,
      path: pathOf(incoming.url),
      headers,
      remoteAddress,
    });
    access.requireRouteScope(caller, plane.name, route);
    return caller;
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

const pathOf = (url = ''): string => url.split('?', 1)[0] ?? '';

/** Messages that the client does not take are lost. */
async function sendAll(connection: SocketConnection, messages: readonly string[]): Promise<void> {
  for (const message of messages) await connection.send(message).catch(() => undefined);
}

/** A browser connects to any host, and names the page's origin. */
function refuseForeignPage({ headers: { origin, host } }: IncomingMessage): void {
  if (origin === undefined || (URL.canParse(origin) && new URL(origin).host === host)) return;
  throw new HttpError(
    403,
    'foreign_origin',
    `A page of another origin '${origin.slice(0, 100)}' may not use this host; connect without Origin.`,
  );
}

const shuttingDownError = (): HttpError => new HttpError(503, 'shutting_down', 'The host is shutting down.');
