import { homedir } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';
import { interruptedExitCode, onStopSignals } from './terminal/stop-signals.ts';

// Composition root of the operator tool: the only file of it that reads argv and the environment. Everything else is
// imported after the restart.
await restartUnderCurrentNode();
const { main } = await import('./observe-tool/main.ts');

// The process that reads stdout may exit (`| head`). Later writes are dropped.
const stopping = new AbortController();
process.stdout.on('error', () => stopping.abort());
process.stderr.on('error', () => undefined);
onStopSignals(process, (request) => {
  // The second signal does not wait for a running statement.
  if (request > 1) process.exit(interruptedExitCode);
  stopping.abort();
});

process.exitCode = await main({
  args: process.argv.slice(2),
  env: process.env,
  home: homedir(),
  packageRoot: packageRoot(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  stopping: stopping.signal,
  entry: (name) =>
    fileURLToPath(new URL(`./${name}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)),
});
