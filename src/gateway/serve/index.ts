import { randomUUID } from 'node:crypto';
import type { RunningGateway, ServeOptions } from '../cli/types.ts';
import { openGateway } from '../open.ts';
import { openTelemetry } from '../../telemetry/open.ts';
import { noopTracer, Tracer } from '../../tracing/index.ts';
import { listen } from './listen.ts';

/** Time to close the remaining connections after all requests are settled, in ms. */
const closeTimeoutMs = 500;

/** Runs the gateway as a service of its own. Resolves when the port is bound and the database is open. */
export async function serveGateway(options: ServeOptions): Promise<RunningGateway> {
  const { config, database, host, port, env, version, onNotice } = options;
  const onFault = (where: string, error: unknown) =>
    onNotice(`${where}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  const telemetry = await openTelemetry({
    env,
    version,
    instanceId: randomUUID(),
    // Only a recorder's policy can allow content in telemetry, and the gateway has no recorder.
    contentAllowed: () => false,
    redact: () => '',
    onNotice,
  });
  const tracer = telemetry ? new Tracer([telemetry.sink]) : noopTracer;
  const gateway = await openGateway({ config, database, tracer, onFault, onNotice }).catch(
    async (error: unknown) => {
      await telemetry?.close();
      throw error;
    },
  );
  try {
    const listener = await listen(gateway.app, { host, port });
    return {
      port: listener.port,
      async stop(graceMs) {
        const closed = listener.close();
        await gateway.close(graceMs).catch((error: unknown) => onFault('stopping', error));
        const timer = setTimeout(() => listener.destroyConnections(), closeTimeoutMs);
        await closed;
        clearTimeout(timer);
        await telemetry?.close();
      },
    };
  } catch (error) {
    await gateway.close(0);
    await telemetry?.close();
    throw error;
  }
}
