import { homedir } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';
import { interruptedExitCode, onStopSignals } from './terminal/stop-signals.ts';

// The tool for operators: like host.ts the only place that reads argv and the environment, with everything else
// imported after the restart.
await restartUnderCurrentNode();
const { main } = await import('./observe-tool/main.ts');

// Whoever reads us may leave (`| head`): what follows is written to nobody.
const over = new AbortController();
process.stdout.on('error', () => over.abort());
process.stderr.on('error', () => undefined);
onStopSignals(process, (request) => {
  // A second one does not wait for a statement under way.
  if (request > 1) process.exit(interruptedExitCode);
  over.abort();
});

process.exitCode = await main({
  args: process.argv.slice(2),
  env: process.env,
  home: homedir(),
  packageRoot: packageRoot(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  over: over.signal,
  entry: (name) =>
    fileURLToPath(new URL(`./${name}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)),
});
