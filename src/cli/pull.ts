import type { Command } from '../config/commands.ts';
import type { Options } from '../config/options.ts';
import { printable } from '../terminal/printable.ts';
import { defaultDataDir, modelsDir, openDataDir } from './data-dir.ts';
import { progressBar } from './progress.ts';
import type { CliContext } from './cli-context.ts';
import { commandOf } from '../terminal/program.ts';

type PullCommand = Extract<Command, { verb: 'pull' }>;

/** Downloads a model into the data directory and prints how to serve it. */
export async function pullModel(
  command: PullCommand,
  options: Options,
  cli: CliContext,
  signal: AbortSignal,
): Promise<void> {
  const { env, home, stdout, stderr } = cli;
  const quiet = options.quiet ?? false;
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(env, home));
  const bar = progressBar(stderr, quiet);
  const { repo, file, revision } = command;
  const token = env['HF_TOKEN'];
  const endpoint = env['HF_ENDPOINT'];
  try {
    const { path, alreadyPresent } = await cli.pull({
      repo,
      ...(file === undefined ? {} : { file }),
      ...(revision === undefined ? {} : { revision }),
      destination: modelsDir(dataDir.path),
      ...(token ? { token } : {}),
      ...(endpoint ? { endpoint } : {}),
      onProgress: (progress) => bar.show(progress.file, progress.done, progress.total),
      onNotice: (message) => {
        bar.clear();
        if (!quiet) stderr.write(`${printable(message)}\n`);
      },
      signal,
    });
    bar.clear();
    if (alreadyPresent && !quiet) stderr.write('already downloaded and verified\n');
    stdout.write(`${path}\n`);
    if (!quiet) stdout.write(`Serve it with: ${commandOf('host')} --gpu --model ${path}\n`);
  } finally {
    bar.clear();
  }
}
