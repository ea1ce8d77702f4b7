/**
 * Host process of the overhead measurement: the complete host on a loopback port, with a GPU that answers immediately.
 * Sends its URL to the parent, and its processor time on each message.
 */
import { loadEngine } from '../src/engine/index.ts';
import { loopbackAccess } from '../src/planes/access.ts';
import { createApp } from '../src/http/app.ts';
import { hostGuard } from '../src/http/host-guard.ts';
import { listen } from '../src/http/listen.ts';
import { createHostPlanes } from '../src/planes/mount.ts';
import { Resident } from '../src/planes/resident.ts';
import { ServedCounters } from '../src/planes/served-counters.ts';
import { Tracer } from '../src/tracing/index.ts';
import { ownCpuMs } from './cpu-load.ts';
import { benchPlatform } from './platform.ts';
import { storeAt } from '../test/support/model-store.ts';

const [model = '', adapter] = process.argv.slice(2);
const host = '127.0.0.1';

const engine = await loadEngine(benchPlatform(), {
  model,
  // Each step must produce exactly one token.
  speculation: 'off',
  ...(adapter === undefined ? {} : { adapter }),
});
const tokenIds = engine.tokenizer.encode(
  'The children went to the river and found a small boat, which was red. ',
);
let sampledCount = 0;
const nextToken = () => tokenIds[sampledCount++ % tokenIds.length] ?? 0;
engine.runner.submit = (step) => {
  // Read now: the step is refilled before its tokens are returned.
  const tokens = Uint32Array.from({ length: step.dims.samples }, nextToken);
  // Resolves in a later turn of the event loop, like a readback, so that each token is written separately.
  return new Promise((resolve) => setImmediate(() => resolve(tokens)));
};

const resident = new Resident('loading');
resident.setReady(engine);
const store = storeAt('/nowhere');
const served = new ServedCounters();
const planes = createHostPlanes({ resident, store, served, version: 'bench', endpointId: 'bench' });
const app = createApp({
  planes,
  access: loopbackAccess,
  stopSignal: new AbortController().signal,
  onFault: (_, error) => console.error(error),
  watch: new Tracer([served]),
});
const { port } = await listen(app, hostGuard(host, []), { host, port: 0 });

process.on('disconnect', () => process.exit());
process.on('message', () => process.send?.({ cpuMs: ownCpuMs() }));
process.send?.({ url: `http://${host}:${port}` });
