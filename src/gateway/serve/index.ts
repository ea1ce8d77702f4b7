import { randomUUID } from 'node:crypto';
import type { RunningGateway, ServeOptions } from '../cli/types.ts';
import { openGateway } from '../open.ts';
import { openTelemetry } from '../../telemetry/open.ts';
import { GatewayMetrics } from '../../telemetry/gateway-metrics.ts';
import type { BoundServer } from '../../http/listening.ts';
import { combineObservers, noopTracer, Tracer } from '../../tracing/index.ts';
import { listenForOperator } from '../operator/listen.ts';
import { listen } from './listen.ts';

/** Time to close the remaining connections after all requests are settled, in ms. */
const closeTimeoutMs = 500;

/** Runs the gateway as a service of its own. Resolves when the port is bound and the database is open. */
export async function serveGateway(options: ServeOptions): Promise<RunningGateway> {
  const {
    config,
    readConfig,
    database,
    host,
    port,
    env,
    version,
    admin,
    pages,
    log,
    otlpEndpoint,
    onNotice,
  } = options;
  const onFault = (where: string, error: unknown) =>
    onNotice(`${where}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  const telemetry = await openTelemetry({
    endpoint: otlpEndpoint,
    env,
    version,
    instanceId: randomUUID(),
    // Only a recorder's policy can allow content in telemetry, and the gateway has no recorder.
    contentAllowed: () => false,
    redact: () => '',
    onNotice,
  });
  // Metrics are collected only where they can be read.
  const metrics = admin && new GatewayMetrics();
  const observers = [...(metrics ? [metrics] : []), ...(log ? [log] : [])];
  const sinks = [...observers, ...(telemetry ? [telemetry.sink] : [])];
  const tracer = sinks.length > 0 ? new Tracer(sinks) : noopTracer;
  const observer = combineObservers(observers);
  const gateway = await openGateway({
    config,
    readConfig,
    database,
    tracer,
    observer,
    onFault,
    onNotice,
  }).catch(async (error: unknown) => {
    await telemetry?.close();
    throw error;
  });
  const listeners: BoundServer[] = [];
  try {
    // First, so that probes see that the gateway is not ready yet.
    const adminListener =
      admin &&
      metrics &&
      (await listenForOperator(admin, { gateway, metrics, tokens: admin.tokens, pages, version, onFault }));
    if (adminListener) listeners.push(adminListener);
    const listener = await listen(gateway.app, { host, port });
    listeners.push(listener);
    return {
      port: listener.port,
      adminPort: adminListener?.port,
      reload: async () => await gateway.reload?.(),
      async stop(graceMs) {
        const closed = listener.close();
        await gateway.close(graceMs).catch((error: unknown) => onFault('stopping', error));
        // Until now, so that its probes and metrics show how requests end.
        const adminClosed = adminListener?.close();
        const timer = setTimeout(() => {
          for (const one of listeners) one.destroyConnections();
        }, closeTimeoutMs);
        await Promise.all([closed, adminClosed]);
        clearTimeout(timer);
        await telemetry?.close();
      },
    };
  } catch (error) {
    for (const one of listeners) {
      one.destroyConnections();
      await one.close();
    }
    await gateway.close(0);
    await telemetry?.close();
    throw error;
  }
}
