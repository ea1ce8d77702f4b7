import type { Exchange } from '../../http/exchange.ts';
import type { Receipt } from './receipt.ts';
import type { Told } from './told.ts';

/** A request to the gateway. */
export interface Asked extends Exchange {
  readonly receipt: Receipt;
  /** By `performance.now()`. */
  readonly arrivedAt: number;
  /** Path below the base, as `/v1/chat/completions`. */
  readonly route: string;
  /** For who watches; undefined on routes that cost nothing. */
  readonly told: Told | undefined;
}
