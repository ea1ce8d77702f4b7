/**
 * Entry point of the child process that runs candidate kernels on its own GPU device. The host forks it, and kills it
 * when a kernel hangs. The only argument is a part of the adapter's name.
 */
import process from 'node:process';
import { openBench } from './lab/gate/open-bench.ts';
import type { FromChild, ToChild } from './lab/gate/protocol.ts';
import { runGate } from './lab/gate/run-gate.ts';
import { errorMessage } from './util/error-message.ts';

// When the host exits, exit at once: a hanging shader would otherwise keep this process alive forever.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// Ctrl-C and a closing terminal signal the whole process group: ignore them here, because the host decides when to end.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});

const tell = (message: FromChild, then: () => void = () => {}): void => {
  if (process.connected) process.send?.(message, undefined, undefined, then);
};

try {
  const bench = await openBench(process.argv[2]);
  void bench.gpu.lost.then((reason) => {
    tell({ type: 'lost', message: `the device was lost (${reason})` }, () => process.exit(1));
  });
  process.on('message', ({ job }: ToChild) => {
    runGate(bench, job, {
      begin: (stage) => tell({ type: 'begin', stage }),
      end: (stage) => tell({ type: 'end', stage }),
      phase: (phase, load) => tell({ type: 'phase', phase, load }),
    }).then(
      (report) => tell({ type: 'report', report }),
      (error: unknown) => tell({ type: 'failed', message: errorMessage(error) }),
    );
  });
  tell({ type: 'ready', load: await bench.known.load() });
} catch (error) {
  tell({ type: 'unusable', message: errorMessage(error) }, () => process.exit(1));
}
