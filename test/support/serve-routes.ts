import { afterEach } from 'vitest';
import { createAgentPlane } from '../../src/planes/agent/plane.ts';
import { type Access, loopbackAccess } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import type { Route } from '../../src/http/route.ts';

/** Serves routes of the agent plane on a real port; closed after each test of the file. */
export function routeServers() {
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    await Promise.all(open.splice(0).map((server) => server.close()));
  });
  return async (routes: readonly Route[], access: Access = loopbackAccess, bound = '127.0.0.1') => {
    const stopping = new AbortController();
    const faults: unknown[] = [];
    const app = createApp({
      planes: [createAgentPlane(routes)],
      access,
      stopSignal: stopping.signal,
      onFault: (_, error) => faults.push(error),
    });
    const listener = await listen(app, hostGuard(bound, []), { host: bound, port: 0 });
    open.push({
      async close() {
        listener.destroyConnections();
        await listener.close();
      },
    });
    const url = `http://127.0.0.1:${listener.port}`;
    const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      fetch(url + path, {
        method,
        headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
    return { url, faults, stopping, send };
  };
}
