import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '../config/options.ts';
import { errorMessage } from '../util/error-message.ts';
import { type Flags, type Invocation, parseLabArguments } from './arguments.ts';
import { LabClient } from './client.ts';
import type { CommandName } from './command-table.ts';
import { bind, graph, parts, remove, source, unbind } from './commands/bindings.ts';
import { check } from './commands/check.ts';
import { configs, diff, save, validate } from './commands/configs.ts';
import { bench, parity } from './commands/measure.ts';
import { history } from './commands/history.ts';
import { profile } from './commands/profile.ts';
import { exportConfig, importConfig, publish, verify } from './commands/share.ts';
import { ops, stub } from './commands/ops.ts';
import { search } from './commands/search.ts';
import { exitCodes, type CommandHandler } from './context.ts';
import { readHostAddress, violationLines } from '../host-client/address.ts';
import { HostError } from '../host-client/errors.ts';
import { FileError } from '../terminal/file-error.ts';
import { labHelpText } from './help.ts';
import { createPainter } from '../terminal/style.ts';
import { printable } from '../terminal/printable.ts';
import { watch } from './commands/watch.ts';
import type { ToolEnvironment } from './tool-environment.ts';
import { commandOf } from '../terminal/program.ts';

const commands: Readonly<Record<CommandName, CommandHandler>> = {
  ops,
  stub,
  check,
  profile,
  watch,
  graph,
  parts,
  bind,
  unbind,
  source,
  history,
  delete: remove,
  parity,
  bench,
  search,
  configs,
  save,
  export: exportConfig,
  publish,
  import: importConfig,
  verify,
  validate,
  diff,
};

/** Runs the command line and returns the exit code. Prints each error as a line on stderr. */
export async function main(environment: ToolEnvironment): Promise<number> {
  // Also honor --json when the command line is invalid.
  let json = environment.args.includes('--json');
  try {
    const invocation = parseLabArguments(environment.args);
    if (invocation.command === 'help' || invocation.command === 'version')
      return await printAbout(invocation.command, environment);
    json = invocation.flags.json === true;
    return await runCommand(invocation, environment);
  } catch (error) {
    if (json) environment.stdout.write(`${JSON.stringify({ error: errorDocument(error) })}\n`);
    const lines =
      error instanceof UsageError
        ? error.faults
        : [errorMessage(error), ...(error instanceof HostError ? violationLines(error) : [])];
    for (const line of lines) environment.stderr.write(`lathe lab: ${printable(line)}\n`);
    if (error instanceof UsageError) environment.stderr.write(`See: ${commandOf('lab')} --help\n`);
    if (error instanceof UsageError || error instanceof FileError) return exitCodes.usage;
    return error instanceof HostError ? exitCodes.host : exitCodes.failed;
  }
}

function errorDocument(error: unknown) {
  if (error instanceof HostError) {
    const { code, message, status, violations } = error;
    return {
      code,
      message,
      ...(status === undefined ? {} : { status }),
      ...(violations.length > 0 ? { violations } : {}),
    };
  }
  if (error instanceof UsageError || error instanceof FileError)
    return { code: 'usage', message: error.message };
  return { code: 'failed', message: errorMessage(error) };
}

async function runCommand(
  { command, words, flags }: Extract<Invocation, { flags: Flags }>,
  environment: ToolEnvironment,
): Promise<number> {
  const { stdout } = environment;
  const client = new LabClient(await readHostAddress(flags, environment.env));
  // Files and pipes get unwrapped lines. A terminal with unknown width reports 0 columns.
  const width = stdout.isTTY === true ? stdout.columns || 80 : Number.POSITIVE_INFINITY;
  return await commands[command]({
    client,
    words,
    flags,
    environment,
    look: { paint: createPainter(stdout), width },
    print: (document, lines) => {
      const text = flags.json === true ? JSON.stringify(document, undefined, 2) : lines().join('\n');
      stdout.write(`${text}\n`);
    },
  });
}

async function printAbout(
  what: 'help' | 'version',
  { packageRoot, stdout }: ToolEnvironment,
): Promise<number> {
  const manifest = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  stdout.write(what === 'help' ? labHelpText(manifest.version) : `lathe ${manifest.version}\n`);
  return exitCodes.fine;
}
