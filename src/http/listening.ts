import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server that has its port. */
export interface Listening {
  readonly port: number;
  /** Stops accepting; resolves when the last connection is done. */
  close(): Promise<void>;
  /** Cuts what is still open. */
  cut(): void;
}

/** Takes the port (0: a free one). Rejects with Node's error where it cannot be had. */
export async function listening(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () => closed(server),
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
