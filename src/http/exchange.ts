import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context } from 'hono';
import type { BodySource } from './body.ts';

/** Node's own request and response, where there are any. */
export interface NodeBindings {
  Bindings: { incoming?: IncomingMessage; outgoing?: ServerResponse };
}

/** A request, and the way its answer goes out. */
export interface Exchange extends BodySource {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly url: () => string;
  readonly headers: () => Headers;
  /** Of the socket. */
  readonly remoteAddress: string | undefined;
  /** Aborted when the client closes the connection before it has its answer. */
  readonly gone: AbortSignal;
  readonly outgoing: ServerResponse | undefined;
}

export function openExchange(
  { req, env }: Pick<Context<NodeBindings>, 'req' | 'env'>,
  requestId: string,
): Exchange {
  const { incoming, outgoing } = env ?? {};
  const left = new AbortController();
  // Not by the request's own signal: to have one, the whole request is made anew.
  if (outgoing?.destroyed && !outgoing.writableFinished) left.abort();
  else
    outgoing?.once('close', () => {
      if (!outgoing.writableFinished) left.abort();
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
    gone: outgoing ? left.signal : req.raw.signal,
    incoming,
    outgoing,
    web: () => req.raw.body,
  };
}
