import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context } from 'hono';
import type { BodySource } from './body.ts';
import type { Cors } from './cors.ts';

/** Hono bindings: Node's request and response, where available. */
export interface NodeBindings {
  Bindings: { incoming?: IncomingMessage; outgoing?: ServerResponse };
}

/** A request and the means to answer it. */
export interface Exchange extends BodySource {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly url: () => string;
  readonly headers: () => Headers;
  /** Remote address of the socket. */
  readonly remoteAddress: string | undefined;
  /** Aborted when the client closes the connection before the response is complete. */
  readonly disconnectSignal: AbortSignal;
  readonly outgoing: ServerResponse | undefined;
  /** Which pages of other origins may send requests; undefined: none. */
  readonly cors: Cors | undefined;
}

export function openExchange(
  { req, env }: Pick<Context<NodeBindings>, 'req' | 'env'>,
  requestId: string,
  cors?: Cors,
): Exchange {
  const { incoming, outgoing } = env ?? {};
  const disconnect = new AbortController();
  // The request's own signal is not used: reading it makes the adapter build a complete web request.
  if (outgoing?.destroyed && !outgoing.writableFinished) disconnect.abort();
  else
    outgoing?.once('close', () => {
      if (!outgoing.writableFinished) disconnect.abort();
    });
  return {
    requestId,
    method: req.method,
    path: req.path,
    url: () => req.url,
    headers: () => req.raw.headers,
    header(name) {
      if (!incoming) return req.header(name);
      const value = incoming.headers[name];
      return Array.isArray(value) ? value.join(', ') : value;
    },
    remoteAddress: incoming?.socket.remoteAddress,
    disconnectSignal: outgoing ? disconnect.signal : req.raw.signal,
    incoming,
    outgoing,
    cors,
    webStream: () => req.raw.body,
  };
}
