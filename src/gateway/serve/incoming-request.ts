import type { Exchange } from '../../http/exchange.ts';
import type { Receipt } from './receipt.ts';
import type { GatewaySpan } from './span.ts';

/** A request to the gateway. */
export interface IncomingRequest extends Exchange {
  readonly receipt: Receipt;
  /** Time of `performance.now()`, in ms. */
  readonly arrivedAt: number;
  /** Path below the base, as `/v1/chat/completions`. */
  readonly route: string;
  /** The request's span; undefined on routes that are free of charge. */
  readonly span: GatewaySpan | undefined;
}
