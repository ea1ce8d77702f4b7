import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LocalServer {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  close(): Promise<void>;
}

export const serve = async (listener: RequestListener): Promise<LocalServer> => {
  // A test that computes for seconds must not find its connection closed by the keep-alive timeout.
  const server = createServer({ keepAliveTimeout: 120_000 }, listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
};

/** The range a request asks for, both ends inclusive; undefined for the whole of it. */
export const rangeOf = (
  header: string | undefined,
  size: number,
): { first: number; last: number } | undefined => {
  const match = /^bytes=(\d+)-(\d*)$/.exec(header ?? '');
  if (!match) return undefined;
  return { first: Number(match[1]), last: match[2] ? Math.min(Number(match[2]), size - 1) : size - 1 };
};

/** A port that was free just now, for a process that takes only a number. */
export async function freePort(): Promise<number> {
  const server = await serve(() => undefined);
  await server.close();
  return Number(new URL(server.url).port);
}
