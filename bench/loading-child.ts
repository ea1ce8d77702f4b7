/** Loads one model and prints its times and sizes. A separate process, so that its peak memory is that of this load. */
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadEngine } from '../src/engine/index.ts';
import { fileStore } from '../src/platform/node-store.ts';
import { nodePlatform } from '../src/platform/node.ts';

const [model = ''] = process.argv.slice(2);
let first: { at: number; done: number } | undefined;
let last = 0;
let weightBytes = 0;
const engine = await loadEngine(nodePlatform(fileStore(join(tmpdir(), 'lathe-bench-loading'))), {
  model,
  context: 512,
  parallel: 1,
  onProgress({ stage, done, total }) {
    if (stage !== 'weights') return;
    last = performance.now();
    // Bytes before the first report are not timed.
    first ??= { at: last, done };
    if (done === total) weightBytes = total - first.done;
  },
});
// VmHWM: peak resident memory in kB.
const status = await readFile('/proc/self/status', 'utf8');
const peakBytes = Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
const { runner } = engine;
const deviceBytes = runner.weightBytes + runner.memory.pool.bytes;
console.log(JSON.stringify({ weightsMs: last - (first?.at ?? last), weightBytes, peakBytes, deviceBytes }));
process.exit(0);
