import { expect } from 'vitest';
import type { Gateway } from '../../../src/gateway/open.ts';

/** Waits until no request of a gateway is under way and every hold is settled. */
export const nowDrained = (gateway: Gateway): Promise<void> =>
  expect
    .poll(
      () => {
        const { requestsInFlight, openHolds } = gateway.state();
        return { requestsInFlight, openHolds };
      },
      { timeout: 10_000 },
    )
    .toEqual({ requestsInFlight: 0, openHolds: 0 });
