import { join } from 'node:path';
import { Peers } from '../agent/sessions/peers.ts';
import type { Settings } from '../config/toml.ts';
import { ObserveFeed, observeLab } from '../feed/index.ts';
import type { Lab } from '../lab/types.ts';
import { Observe } from '../observe/observe.ts';
import { RequestMetrics } from '../planes/host/request-metrics.ts';
import { ServedCounters } from '../planes/served-counters.ts';
import { Recorder } from '../recorder/recorder.ts';
import type { Store } from '../store/index.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { openTelemetry } from '../telemetry/open.ts';
import { errorMessage } from '../util/error-message.ts';
import { type GatewayObserver, Tracer } from '../tracing/index.ts';
import { StartError } from './start-error.ts';
import type { CliContext } from './cli-context.ts';

export interface ObservabilityOptions {
  readonly settings: Settings;
  readonly store: Store;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  readonly dataDir: string;
  readonly version: string;
  /** Secrets that must never be recorded. */
  readonly secrets: readonly string[];
  readonly cli: Pick<CliContext, 'env' | 'entry'>;
  readonly onFault: (where: string, error: unknown) => void;
  readonly onNotice: (message: string) => void;
}

/** The consumers of the host's events, and the planes that report them. */
export interface Observability {
  readonly watch: Tracer;
  readonly served: ServedCounters;
  readonly metrics: Metrics;
  readonly requests: RequestMetrics;
  readonly recorder: Recorder;
  readonly observe: Observe;
  /** Observes the gateway of this host: its attempts are rows of the observe plane. */
  readonly gatewayObserver: GatewayObserver;
  readonly observeLab: (lab: Lab, model: string) => Lab;
  /** Call when all work has ended, before the store is closed. */
  readonly close: () => Promise<void>;
}

export async function openObservability(options: ObservabilityOptions): Promise<Observability> {
  const { settings, store, database, dataDir, version, secrets, cli, onFault, onNotice } = options;
  const recorder = await Recorder.open({
    folder: join(dataDir, 'recorder'),
    worker: cli.entry('recorder-worker'),
    secrets,
    findPeer: (name) => new Peers({ store }).findCurrent(name),
    onFault: (message) => onFault('recorder', message),
    onNotice: onNotice,
  }).catch((error: unknown) => {
    throw new StartError(errorMessage(error));
  });
  try {
    const telemetry = await openTelemetry({
      endpoint: settings.otlp_endpoint,
      env: cli.env,
      version,
      instanceId: store.endpointId,
      contentAllowed: (rack) => recorder.contentOf(rack) === 'full',
      redact: (text, rack) => recorder.redact(text, rack),
      onNotice: onNotice,
    });
    const observe = await Observe.open({
      database,
      worker: cli.entry('observe-worker'),
      transcripts: recorder.transcripts,
    });
    const served = new ServedCounters();
    const metrics = new Metrics();
    const feed = new ObserveFeed({ store, onFault });
    return {
      watch: new Tracer([served, metrics, feed, recorder.sink, ...(telemetry ? [telemetry.sink] : [])]),
      served,
      metrics,
      requests: new RequestMetrics(
        settings.metrics_compat === undefined ? {} : { compat: settings.metrics_compat },
      ),
      recorder,
      observe,
      gatewayObserver: feed,
      observeLab: (lab, model) => observeLab(lab, { feed, model }),
      async close() {
        await Promise.all([feed.close(), recorder.close(), observe.close(), telemetry?.close()]);
      },
    };
  } catch (error) {
    await recorder.close();
    throw error;
  }
}
