import process from 'node:process';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';

// Entry point of the `lathe-agent` tool. Like host.ts, it is the only module that reads argv and the environment. All
// other modules are imported after the restart.
await restartUnderCurrentNode();
const { main } = await import('./agent-tool/main.ts');
const { programName } = await import('./terminal/program-name.ts');

// The reader of stdout can exit early (`| head`): ignore the write errors and keep the exit code.
const stdoutClosed = new AbortController();
process.stdout.on('error', () => stdoutClosed.abort());
process.stderr.on('error', () => undefined);

/** The folder may have been removed. */
function workingFolder(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}

process.exitCode = await main({
  program: programName(process.argv[1] ?? '', process.env['PATH']),
  args: process.argv.slice(2),
  env: process.env,
  cwd: workingFolder(),
  packageRoot: packageRoot(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  stdoutClosed: stdoutClosed.signal,
  exit: (code) => process.exit(code),
  onExit: (listener) => process.on('exit', listener),
});
// The input may be open, and connections to a host that is away.
process.exit();
