import { join } from 'node:path';
import { Peers } from '../agent/sessions/peers.ts';
import type { Settings } from '../config/toml.ts';
import { Feed, observedLab } from '../feed/index.ts';
import type { Lab } from '../lab/types.ts';
import { Observe } from '../observe/open.ts';
import { Served } from '../planes/served.ts';
import { Recorder } from '../recorder/open.ts';
import type { Store } from '../store/index.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { openTelemetry } from '../telemetry/open.ts';
import { errorMessage } from '../util/error-message.ts';
import { Watch } from '../watch/index.ts';
import { StartError } from './start-error.ts';
import type { World } from './world.ts';

export interface WatchingSetting {
  readonly settings: Settings;
  readonly store: Store;
  /** `sqlite:PATH` or `postgres://...`. */
  readonly database: string;
  readonly dataDir: string;
  readonly version: string;
  /** Secrets that must never be recorded. */
  readonly secrets: readonly string[];
  readonly world: Pick<World, 'env' | 'entry'>;
  readonly onFault: (where: string, error: unknown) => void;
  readonly say: (message: string) => void;
}

/** The consumers of the host's events, and the planes that report them. */
export interface Watching {
  readonly watch: Watch;
  readonly served: Served;
  readonly metrics: Metrics;
  readonly recorder: Recorder;
  readonly observe: Observe;
  readonly observeLab: (lab: Lab, model: string) => Lab;
  /** Call when all work has ended, before the store is closed. */
  readonly close: () => Promise<void>;
}

export async function openWatching(setting: WatchingSetting): Promise<Watching> {
  const { settings, store, database, dataDir, version, secrets, world, onFault, say } = setting;
  const recorder = await Recorder.open({
    folder: join(dataDir, 'recorder'),
    worker: world.entry('recorder-worker'),
    secrets,
    findPeer: (name) => new Peers({ store }).current(name),
    onFault: (message) => onFault('recorder', message),
    onNotice: say,
  }).catch((error: unknown) => {
    throw new StartError(errorMessage(error));
  });
  try {
    const telemetry = await openTelemetry({
      endpoint: settings.otlp_endpoint,
      env: world.env,
      version,
      instanceId: store.endpointId,
      contentAllowed: (rack) => recorder.contentOf(rack) === 'full',
      redact: (text, rack) => recorder.redact(text, rack),
      onNotice: say,
    });
    const observe = await Observe.open({
      database,
      worker: world.entry('observe-worker'),
      transcripts: recorder.transcripts,
    });
    const served = new Served();
    const metrics = new Metrics();
    const feed = new Feed({ store, onFault });
    return {
      watch: new Watch([served, metrics, feed, recorder.sink, ...(telemetry ? [telemetry.sink] : [])]),
      served,
      metrics,
      recorder,
      observe,
      observeLab: (lab, model) => observedLab(lab, { feed, model }),
      async close() {
        await Promise.all([feed.close(), recorder.close(), observe.close(), telemetry?.close()]);
      },
    };
  } catch (error) {
    await recorder.close();
    throw error;
  }
}
