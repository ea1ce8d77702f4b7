import { Console } from 'node:console';
import process from 'node:process';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';

// The authors' tool: like host.ts the only place that reads argv and the environment, with everything else imported
// after the restart.
await restartUnderCurrentNode();
const { main } = await import('./lab-tool/main.ts');

// Whoever reads us may leave (`| head`): what follows is written to nobody, and the exit code stays true.
const readerGone = new AbortController();
process.stdout.on('error', () => readerGone.abort());
process.stderr.on('error', () => undefined);
// A kernel module may log; the results on stdout stay clean.
globalThis.console = new Console(process.stderr, process.stderr);

process.exitCode = await main({
  args: process.argv.slice(2),
  env: process.env,
  packageRoot: packageRoot(),
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  readerGone: readerGone.signal,
  atExit: (listener) => process.on('exit', listener),
  exit: (code) => process.exit(code),
});
