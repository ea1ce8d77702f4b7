import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { main } from '../../src/cli/main.ts';
import type { CliContext } from '../../src/cli/cli-context.ts';
import { entryPath, repository } from './host.ts';

/** Runs command lines, each in a world of its own. The data directory is `data` in the folder, unless they name one. */
export const commandLines =
  (folder: string) =>
  async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const output = { stdout: '', stderr: '', code: 0 };
    const to = (stream: 'stdout' | 'stderr') => ({ write: (text: string) => (output[stream] += text) });
    const never = () => Promise.reject(new Error('not of this test'));
    const world: CliContext = {
      args,
      env: { PATH: process.env['PATH'], LATHE_DATA_DIR: join(folder, 'data'), ...env },
      home: folder,
      packageRoot: repository,
      stdout: to('stdout'),
      stderr: to('stderr'),
      signals: new EventEmitter() as CliContext['signals'],
      exit: (code) => (output.code = code),
      elapsedMs: () => 0,
      entry: entryPath,
      loadEngine: never,
      openLab: never,
      openGrammars: never,
      pull: never,
    };
    await main(world);
    return output;
  };
