import type { RunningGateway, ServeOptions } from '../cli/types.ts';
import { openGateway } from '../open.ts';
import { listen } from './listen.ts';

/** What cutting connections may take after all is settled, in ms. */
const cutMs = 500;

/** The gateway as a service of its own. Resolves when the port is taken and the database is there. */
export async function serveGateway(options: ServeOptions): Promise<RunningGateway> {
  const { config, database, host, port, onNotice } = options;
  const onFault = (where: string, error: unknown) =>
    onNotice(`${where}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  const gateway = await openGateway({ config, database, onFault, onNotice });
  try {
    const listener = await listen(gateway.app, { host, port });
    return {
      port: listener.port,
      async stop(graceMs) {
        const closed = listener.close();
        await gateway.close(graceMs).catch((error: unknown) => onFault('stopping', error));
        const timer = setTimeout(() => listener.cut(), cutMs);
        await closed;
        clearTimeout(timer);
      },
    };
  } catch (error) {
    await gateway.close(0);
    throw error;
  }
}
