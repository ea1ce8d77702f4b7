import { createApp } from '../../http/app.ts';
import { BrowserSessions } from '../../http/browser-sessions.ts';
import { hostGuard, isLoopback } from '../../http/host-guard.ts';
import { type Address, listen } from '../../http/listen.ts';
import type { BoundServer } from '../../http/listening.ts';
import { openapiDocument } from '../../http/openapi.ts';
import type { PageFiles } from '../../http/static-files.ts';
import { defineRoute, type Plane } from '../../http/route.ts';
import { sessionRoutes } from '../../http/session-routes.ts';
import { openapi } from '../../api-docs/schema.ts';
import type { Gateway } from '../open.ts';
import { operatorAccess } from './access.ts';
import { adminPrefix } from './admin-answers.ts';
import { createAdminPlane } from './admin-plane.ts';
import type { AdminTokens } from './admin-tokens.ts';
import { LoginFailures } from './login-failures.ts';
import { withOperatorPages } from './pages.ts';
import { createOperatorPlane, type OperatorPlaneOptions } from './plane.ts';

interface OperatorListenerOptions extends OperatorPlaneOptions {
  readonly gateway: Gateway;
  /** Undefined: the admin API refuses everybody. */
  readonly tokens: AdminTokens | undefined;
  /** The web build; undefined: the listener has no page. */
  readonly pages?: PageFiles | undefined;
  readonly onFault: (where: string, error: unknown) => void;
}

/** Opens the operator listener. Rejects with Node's error where the port cannot be bound. */
export async function listenForOperator(
  address: Address,
  { tokens, pages, onFault, ...options }: OperatorListenerOptions,
): Promise<BoundServer> {
  const operator = createOperatorPlane(options);
  const admin = createAdminPlane(options.gateway);
  const sessions = new BrowserSessions({ name: 'operator', isTls: false });
  const described: Plane[] = [
    admin,
    {
      ...operator,
      routes: [
        ...operator.routes,
        ...sessionRoutes(`${adminPrefix}/session`, sessions),
        documentRoute(() => described, options.version),
      ],
    },
  ];
  const failures = new LoginFailures({
    changeLog: options.gateway.admin.changeLog,
    onFault: (error) => onFault('log of changes', error),
  });
  const app = createApp({
    planes: described,
    access: operatorAccess({ tokens, sessions, onWrongToken: () => failures.record() }),
    stopSignal: new AbortController().signal,
    onFault,
  });
  // Beyond loopback, scrapers and probes come with any name of this machine.
  const guard = isLoopback(address.host) ? hostGuard(address.host, []) : () => undefined;
  return await listen(withOperatorPages(app, pages), guard, address);
}

const documentInfo = {
  title: 'lathe gateway: operator listener',
  description:
    'Metrics, probes and the admin API of a gateway: accounts, keys, budgets, usage, providers and configuration.',
};

const documentRoute = (planes: () => readonly Plane[], version: string) => {
  let document: object | undefined;
  return defineRoute({
    method: 'GET',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    summary: 'Get the OpenAPI document of this listener',
    responses: { 200: { description: 'OpenAPI 3.1.', content: { 'application/json': openapi } } },
    handle: () => Response.json((document ??= openapiDocument(planes(), version, () => false, documentInfo))),
  });
};
