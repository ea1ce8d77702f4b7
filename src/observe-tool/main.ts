import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { escapeJsonControls, printable } from '../terminal/printable.ts';
import { createPainter } from '../terminal/style.ts';
import { type CommandName, type Flags, observeHelp, parseObserveArguments } from './arguments.ts';
import { ask, query } from './commands/query.ts';
import { schema, surfaces } from './commands/listing.ts';
import { tail } from './commands/tail.ts';
import type { CommandHandler } from './command-context.ts';
import { toToolError } from './tool-error.ts';
import { openSource } from './open-source.ts';
import type { ObserveCliContext } from './cli-context.ts';
import { commandOf } from '../terminal/program.ts';

const commands: Readonly<Record<CommandName, CommandHandler>> = { surfaces, schema, query, ask, tail };
const exitCodes = { fine: 0, refused: 1, usage: 2 } as const;

/** Runs the command line and returns the exit code. Prints one line per error on stderr. */
export async function main(cli: ObserveCliContext): Promise<number> {
  let flags: Flags = {};
  try {
    const invocation = parseObserveArguments(cli.args);
    if (!('flags' in invocation)) return await printAbout(invocation.command, cli);
    flags = invocation.flags;
    await run(invocation.command, invocation.words[0] ?? '', flags, cli);
    return exitCodes.fine;
  } catch (error) {
    // Interrupted by a signal, or stdout was closed.
    if (cli.stopping.aborted) return exitCodes.fine;
    const { lines, document, isUsage } = toToolError(error, flags);
    // `--json` counts even if the command line has faults.
    if (cli.args.includes('--json'))
      cli.stdout.write(`${escapeJsonControls(JSON.stringify({ error: document }))}\n`);
    for (const line of lines) cli.stderr.write(`lathe observe: ${printable(line)}\n`);
    if (isUsage) cli.stderr.write(`See: ${commandOf('observe')} --help\n`);
    return isUsage ? exitCodes.usage : exitCodes.refused;
  }
}

async function run(
  command: CommandName,
  argument: string,
  flags: Flags,
  cli: ObserveCliContext,
): Promise<void> {
  const { stdout, stderr } = cli;
  const source = await openSource(flags, cli);
  // Files and pipes get lines of any length. A terminal of unknown width reports 0.
  const width = stdout.isTTY === true ? stdout.columns || 80 : Number.POSITIVE_INFINITY;
  try {
    await commands[command]({
      source,
      argument,
      flags,
      cli,
      style: { paint: createPainter(stdout), width },
      print: (lines) => {
        if (lines.length > 0) stdout.write(`${lines.join('\n')}\n`);
      },
      printJson: (text) => stdout.write(`${escapeJsonControls(text)}\n`),
      printNote: (text) => stderr.write(`lathe observe: ${printable(text)}\n`),
    });
  } finally {
    await source.close();
  }
}

async function printAbout(
  what: 'help' | 'version',
  { packageRoot, stdout }: ObserveCliContext,
): Promise<number> {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  stdout.write(what === 'help' ? observeHelp(version) : `lathe ${version}\n`);
  return exitCodes.fine;
}
