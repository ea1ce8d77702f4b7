import { Console } from 'node:console';
import process from 'node:process';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';

// Entry point of the `lathe-lab` tool. Like host.ts, it is the only module that reads argv and the environment. All
// other modules are imported after the restart.
await restartUnderCurrentNode();
const { main } = await import('./lab-tool/main.ts');

// The reader of stdout can exit early (`| head`): ignore the write errors and keep the exit code.
const stdoutClosed = new AbortController();
process.stdout.on('error', () => stdoutClosed.abort());
process.stderr.on('error', () => undefined);
// Kernel modules may log: send the console to stderr, so that stdout contains only results.
globalThis.console = new Console(process.stderr, process.stderr);

process.exitCode = await main({
  args: process.argv.slice(2),
  env: process.env,
  packageRoot: packageRoot(),
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  stdoutClosed: stdoutClosed.signal,
  atExit: (listener) => process.on('exit', listener),
  exit: (code) => process.exit(code),
});
