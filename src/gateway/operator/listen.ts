import { createApp } from '../../http/app.ts';
import { hostGuard, isLoopback } from '../../http/host-guard.ts';
import { type Address, listen } from '../../http/listen.ts';
import type { BoundServer } from '../../http/listening.ts';
import type { AccessControl } from '../../http/route.ts';
import { createOperatorPlane, type OperatorPlaneOptions } from './plane.ts';

interface OperatorListenerOptions extends OperatorPlaneOptions {
  readonly onFault: (where: string, error: unknown) => void;
}

/** Everybody who reaches the listener may read what it has: no content, no secret. */
const openAccess: AccessControl = {
  authenticate: () => Promise.resolve({ by: 'operator', isLocal: false }),
  authorizeGate: (_, caller) => Promise.resolve(caller),
  requireRouteScope: () => undefined,
};

/** Opens the operator listener. Rejects with Node's error where the port cannot be bound. */
export async function listenForOperator(
  address: Address,
  { onFault, ...options }: OperatorListenerOptions,
): Promise<BoundServer> {
  const app = createApp({
    planes: [createOperatorPlane(options)],
    access: openAccess,
    stopSignal: new AbortController().signal,
    onFault,
  });
  // Beyond loopback, scrapers and probes come with any name of this machine.
  const guard = isLoopback(address.host) ? hostGuard(address.host, []) : () => undefined;
  return await listen(app, guard, address);
}
