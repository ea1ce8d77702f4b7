import { readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { parseCommandLine } from '../config/arguments.ts';
import type { Command } from '../config/commands.ts';
import { helpText } from '../config/help.ts';
import { type Options, UsageError } from '../config/options.ts';
import { readToml, type Settings } from '../config/toml.ts';
import { addressSpaceLimit, limitNote } from '../platform/foreground.mjs';
import { printable } from '../terminal/printable.ts';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { pullModel } from './pull.ts';
import { startHost } from './serve.ts';
import { abortOnSignals, Interrupted, stopOnSignals } from './signals.ts';
import { mayLackAddressSpace } from './start-error.ts';
import type { World } from './world.ts';

/**
 * Runs the command line. Prints one line per error on stderr; exits with 2 for wrong usage and with 1 for other errors.
 */
export async function main(world: World): Promise<void> {
  try {
    await run(world);
  } catch (error) {
    const usage = error instanceof UsageError;
    const limit = mayLackAddressSpace(error) ? addressSpaceLimit() : undefined;
    const note = limit === undefined ? '' : ` - ${limitNote(limit)}`;
    for (const line of usage ? error.faults : [`${errorMessage(error)}${note}`])
      world.stderr.write(`lathe: ${printable(line)}\n`);
    if (usage) world.stderr.write('See: node dist/host.js --help\n');
    // Setting process.exitCode is not enough: a half-loaded device would keep the process alive.
    if (usage) world.exit(2);
    else world.exit(error instanceof Interrupted ? error.exitCode : 1);
  }
}

async function run(world: World): Promise<void> {
  const command = parseCommandLine(world.args);
  switch (command.verb) {
    case 'help':
      world.stdout.write(helpText(await packageVersion(world.packageRoot)));
      return;
    case 'version':
      world.stdout.write(`lathe ${await packageVersion(world.packageRoot)}\n`);
      return;
    case 'pull':
      return await pullModel(
        command,
        await withConfigFile(command),
        world,
        abortOnSignals(world.signals, world.exit),
      );
    case 'models': {
      // Imported on demand: only this command reads model files.
      const { manageModels } = await import('./models/index.ts');
      return await manageModels(command, await withConfigFile(command), world);
    }
    case 'mcp': {
      const { inspectMcp } = await import('./mcp/index.ts');
      const version = await packageVersion(world.packageRoot);
      const interrupted = abortOnSignals(world.signals, world.exit);
      return await inspectMcp(command, await withConfigFile(command), { world, version, interrupted });
    }
    case 'receipts': {
      const { checkReceipts } = await import('./receipts.ts');
      return await checkReceipts(command, await withConfigFile(command), world);
    }
    case 'recorder': {
      const { manageRecorder } = await import('./recorder.ts');
      return await manageRecorder(command, await withConfigFile(command), world);
    }
    case 'serve': {
      const version = await packageVersion(world.packageRoot);
      const host = await startHost(await withConfigFile(command), version, world);
      stopOnSignals(world.signals, host.stop, world.exit);
      return await host.ready;
    }
  }
}

/** The settings of the configuration file, overridden by the flags. */
async function withConfigFile({
  options,
  config,
}: Extract<Command, { options: Options }>): Promise<Settings> {
  if (config === undefined) return options;
  let source: string;
  try {
    source = await readFile(config, 'utf8');
  } catch (error) {
    const known: Readonly<Record<string, string>> = {
      ENOENT: 'there is no such file',
      EISDIR: 'it is a directory; name the file in it',
      EACCES: "not allowed to read it; check the file's owner and mode",
    };
    const why = known[systemCode(error) ?? ''] ?? errorMessage(error);
    throw new UsageError([`--config ${config}: ${why}`]);
  }
  return { ...readToml(source, basename(config), dirname(resolve(config))), ...options };
}

async function packageVersion(packageRoot: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}
