import type { Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

/** A server that is bound to its port. */
export interface BoundServer {
  readonly port: number;
  /** Stops accepting connections; resolves when the last connection is closed. */
  close(): Promise<void>;
  /** Destroys the connections that are still open. */
  destroyConnections(): void;
}

/** Binds the port (0 for a free one). Rejects with Node's error where the port cannot be bound. */
export async function bindServer(
  server: Server | TlsServer,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<BoundServer> {
  // Node's own list of connections has none in the TLS handshake.
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () => closeGracefully(server),
    destroyConnections() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function closeGracefully(server: Server | TlsServer): Promise<void> {
  return new Promise((resolve) => {
    // A keep-alive connection stays open until its client closes it, so idle connections are closed repeatedly.
    const timer = setInterval(() => server.closeIdleConnections(), 50);
    server.close(() => {
      clearInterval(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
