/**
 * The host of the overhead figure, a process of its own: the whole of lathe on a loopback port, but a GPU that
 * answers at once. Tells its parent the URL, and its processor time whenever it is asked.
 */
import { loadEngine } from '../src/engine/index.ts';
import { openAccess } from '../src/planes/access.ts';
import { createApp } from '../src/http/app.ts';
import { hostGuard } from '../src/http/host-guard.ts';
import { listen } from '../src/http/listen.ts';
import { hostPlanes } from '../src/planes/mount.ts';
import { Resident } from '../src/planes/resident.ts';
import { Served } from '../src/planes/served.ts';
import { Watch } from '../src/watch/index.ts';
import { ownCpuMs } from './others.ts';
import { benchPlatform } from './platform.ts';
import { storeAt } from '../test/support/model-store.ts';

const [model = '', adapter] = process.argv.slice(2);
const host = '127.0.0.1';

const engine = await loadEngine(benchPlatform(), {
  model,
  // A step of it stands for a token.
  speculation: 'off',
  ...(adapter === undefined ? {} : { adapter }),
});
const words = engine.tokenizer.encode(
  'The children went to the river and found a small boat, which was red. ',
);
let drawn = 0;
const nextWord = () => words[drawn++ % words.length] ?? 0;
engine.runner.submit = (step) => {
  // The step is filled anew before this one's tokens are due.
  const tokens = Uint32Array.from({ length: step.dims.samples }, nextWord);
  // In a turn of the event loop of its own, as a readback comes: each token is then a write of its own, too.
  return new Promise((resolve) => setImmediate(() => resolve(tokens)));
};

const resident = new Resident('loading');
resident.ready(engine);
const store = storeAt('/nowhere');
const served = new Served();
const planes = hostPlanes({ resident, store, served, version: 'bench', endpointId: 'bench' });
const app = createApp({
  planes,
  access: openAccess,
  stopping: new AbortController().signal,
  onFault: (_, error) => console.error(error),
  watch: new Watch([served]),
});
const { port } = await listen(app, hostGuard(host, []), { host, port: 0 });

process.on('disconnect', () => process.exit());
process.on('message', () => process.send?.({ cpuMs: ownCpuMs() }));
process.send?.({ url: `http://${host}:${port}` });
