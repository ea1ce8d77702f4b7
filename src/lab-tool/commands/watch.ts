import { stat } from 'node:fs/promises';
import { UsageError } from '../../config/options.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { FileError, toFileError } from '../../terminal/file-error.ts';
import { interruptedExitCode, onStopSignals } from '../../terminal/stop-signals.ts';
import { readKernelFlags } from '../kernel-flags.ts';
import { Screen } from '../screen.ts';
import type { WatchView } from '../watch-events.ts';
import { WatchSession } from '../watch-session.ts';
import { jsonView, plainView, screenView } from '../watch-views.ts';

/** On the first Ctrl-C, restores the bindings and exits with 0; on the second, exits at once. */
export const watch: CommandHandler = async ({ client, words, flags, look, environment }) => {
  const files = [...new Set(words)];
  const kernelFlags = readKernelFlags(flags);
  if (kernelFlags.name !== undefined && files.length > 1)
    throw new UsageError(['--name can be used with one file only']);
  if (flags.span !== undefined && kernelFlags.bind.length > 0)
    throw new UsageError(['--span and --bind exclude each other']);
  for (const file of files) {
    const stats = await stat(file).catch((error: unknown) => {
      throw toFileError(file, error);
    });
    if (!stats.isFile()) throw new FileError(file, 'it is not a file');
  }

  const { stdout, stderr } = environment;
  const stop = new AbortController();
  const screen = new Screen(stdout);
  environment.atExit(() => screen.close(false));
  onStopSignals(environment.signals, (request) => {
    if (request > 1) environment.exit(interruptedExitCode);
    stop.abort();
  });
  environment.stdoutClosed.addEventListener('abort', () => stop.abort());

  const write = (line: string) => void stdout.write(`${line}\n`);
  const view: WatchView =
    flags.json === true
      ? jsonView(write)
      : stdout.isTTY === true
        ? screenView(screen, look, () => new Date())
        : plainView(write, look);
  const viewWithCleanup: WatchView = (event) => {
    view(event);
    if (event.event !== 'stop') return;
    screen.close();
    if (stdout.isTTY === true) for (const failure of event.failures) stderr.write(`lathe lab: ${failure}\n`);
  };
  try {
    await new WatchSession(
      client,
      { files, flags: kernelFlags, span: flags.span },
      viewWithCleanup,
      stop.signal,
    ).run();
  } finally {
    screen.close();
  }
  return exitCodes.fine;
};
