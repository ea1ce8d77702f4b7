import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Context } from 'hono';
import { newReceipt, type Receipt } from './receipt.ts';
import type { BodySource } from './request-body.ts';
import type { Told } from './told.ts';

export interface Setting {
  /** Node's own request and answer, where there are any. */
  Bindings: { incoming?: IncomingMessage; outgoing?: ServerResponse };
}

/** A request as it came in. */
export interface Asked extends BodySource {
  readonly receipt: Receipt;
  /** By `performance.now()`. */
  readonly arrivedAt: number;
  /** Path below the base, as `/v1/chat/completions`. */
  readonly route: string;
  /** Aborted when the caller closes the connection before it has its answer. */
  readonly gone: AbortSignal;
  /** For who watches; undefined on routes that cost nothing. */
  readonly told: Told | undefined;
}

/** @param tell begins to tell of it */
export function askedOf(
  context: Context<Setting>,
  route: string,
  tell?: (requestId: string, traceparent: string | undefined) => Told,
): Asked {
  const { incoming, outgoing } = context.env ?? {};
  const left = new AbortController();
  // Not by the request's own signal: to have one, the whole request is made anew.
  if (outgoing)
    outgoing.once('close', () => {
      if (!outgoing.writableFinished) left.abort();
    });
  const receipt = newReceipt();
  const header = (name: string) => {
    if (!incoming) return context.req.header(name);
    const value = incoming.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  };
  return {
    receipt,
    arrivedAt: performance.now(),
    route,
    gone: outgoing ? left.signal : context.req.raw.signal,
    header,
    incoming,
    web: () => context.req.raw.body,
    told: tell?.(receipt.requestId, header('traceparent')),
  };
}
