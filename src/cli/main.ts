import { readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { parseCommandLine } from '../config/command-line.ts';
import type { Command } from '../config/commands.ts';
import { helpText } from '../config/help.ts';
import { type Options, UsageError } from '../config/options.ts';
import { parseSettings, type Settings } from '../config/toml.ts';
import { addressSpaceLimit, limitNote } from '../platform/foreground.mjs';
import { printable } from '../terminal/printable.ts';
import { errorMessage } from '../util/error-message.ts';
import { systemCode } from '../util/system-code.ts';
import { abortOnSignals, Interrupted, stopOnSignals } from './signals.ts';
import { mayLackAddressSpace } from './start-error.ts';
import type { CliContext } from './cli-context.ts';
import { commandOf } from '../terminal/program.ts';

/**
 * Runs the command line. Prints one line per error on stderr; exits with 2 for wrong usage and with 1 for other errors.
 */
export async function main(cli: CliContext): Promise<void> {
  try {
    await runCommand(cli);
  } catch (error) {
    const usage = error instanceof UsageError;
    const limit = mayLackAddressSpace(error) ? addressSpaceLimit() : undefined;
    const limitText = limit === undefined ? '' : ` - ${limitNote(limit)}`;
    for (const line of usage ? error.faults : [`${errorMessage(error)}${limitText}`])
      cli.stderr.write(`lathe: ${printable(line)}\n`);
    if (usage) cli.stderr.write(`See: ${commandOf('host')} --help\n`);
    // Setting process.exitCode is not enough: a half-loaded device would keep the process alive.
    if (usage) cli.exit(2);
    else cli.exit(error instanceof Interrupted ? error.exitCode : 1);
  }
}

async function runCommand(cli: CliContext): Promise<void> {
  const command = parseCommandLine(cli.args);
  switch (command.verb) {
    case 'help':
      cli.stdout.write(helpText(await packageVersion(cli.packageRoot)));
      return;
    case 'version':
      cli.stdout.write(`lathe ${await packageVersion(cli.packageRoot)}\n`);
      return;
    // Each command is imported on demand: those of a host take half a second.
    case 'pull': {
      const { pullModel } = await import('./pull.ts');
      return await pullModel(
        command,
        await withConfigFile(command),
        cli,
        abortOnSignals(cli.signals, cli.exit),
      );
    }
    case 'models': {
      const { manageModels } = await import('./models/index.ts');
      return await manageModels(command, await withConfigFile(command), cli);
    }
    case 'mcp': {
      const { inspectMcp } = await import('./mcp/index.ts');
      const version = await packageVersion(cli.packageRoot);
      const abortSignal = abortOnSignals(cli.signals, cli.exit);
      return await inspectMcp(command, await withConfigFile(command), { cli, version, abortSignal });
    }
    case 'receipts': {
      const { checkReceipts } = await import('./receipts.ts');
      return await checkReceipts(command, await withConfigFile(command), cli);
    }
    case 'recorder': {
      const { manageRecorder } = await import('./recorder.ts');
      return await manageRecorder(command, await withConfigFile(command), cli);
    }
    case 'serve': {
      const { startHost } = await import('./serve.ts');
      const version = await packageVersion(cli.packageRoot);
      const host = await startHost(await withConfigFile(command), version, cli);
      stopOnSignals(cli.signals, host.stop, cli.exit);
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
    const knownCauses: Readonly<Record<string, string>> = {
      ENOENT: 'there is no such file',
      EISDIR: 'it is a directory; name the file in it',
      EACCES: "not allowed to read it; check the file's owner and mode",
    };
    const why = knownCauses[systemCode(error) ?? ''] ?? errorMessage(error);
    throw new UsageError([`--config ${config}: ${why}`]);
  }
  return { ...parseSettings(source, basename(config), dirname(resolve(config))), ...options };
}

async function packageVersion(packageRoot: string): Promise<string> {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}
