import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { HostGuard } from './ingress.ts';
import { hostEnvelope, Problem } from './problem.ts';
import { newRequestId } from './request-id.ts';

export interface Listener {
  readonly port: number;
  /** Stops accepting; resolves when the last connection is done. */
  close(): Promise<void>;
  /** Cuts what is still open. */
  cut(): void;
}

/** Takes the port (0: a free one) and serves the app behind the guard. Rejects with Node's error when the port is in use. */
export async function listen(
  app: { fetch: (request: Request, env: object) => Response | Promise<Response> },
  guard: HostGuard,
  address: { host: string; port: number },
): Promise<Listener> {
  let closing = false;
  const serve = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  // The guard below says what is wrong with a missing Host; Node's own check would answer an empty 400.
  const server = createServer({ requireHostHeader: false }, (incoming, outgoing) => {
    if (closing) outgoing.setHeader('connection', 'close');
    const refusal = guard(incoming.rawHeaders, incoming.url ?? '');
    if (refusal) {
      refuse(incoming, outgoing, new Problem(refusal.status, refusal.code, refusal.message));
      return;
    }
    void serve(incoming, outgoing);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(address.port, address.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      closing = true;
      return closed(server);
    },
    cut: () => server.closeAllConnections(),
  };
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    // A kept-alive connection counts as open until its client leaves it, so cut each once it has its answer.
    const sweep = setInterval(() => server.closeIdleConnections(), 50);
    server.close(() => {
      clearInterval(sweep);
      resolve();
    });
    server.closeIdleConnections();
  });
}

function refuse(incoming: IncomingMessage, outgoing: ServerResponse, problem: Problem): void {
  const body = JSON.stringify(hostEnvelope(problem));
  outgoing.writeHead(problem.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-content-type-options': 'nosniff',
    'x-request-id': newRequestId(),
    connection: 'close',
  });
  outgoing.end(body);
  incoming.resume();
}
