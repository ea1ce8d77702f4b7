import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lathe, LatheError } from '../client/index.ts';
import { UsageError } from '../config/options.ts';
import { readHostAddress, violationLines } from '../host-client/address.ts';
import { FileError } from '../terminal/file-error.ts';
import { printable } from '../terminal/printable.ts';
import { createPainter } from '../terminal/style.ts';
import { errorMessage } from '../util/error-message.ts';
import { chat } from './chat.ts';
import { type AgentCommand, agentHelpText, parseAgentArguments } from './command-table.ts';
import { agents, approve, create, discard, list, pending, show, stop } from './commands.ts';
import { type CommandHandler, exitCodes, type ToolEnvironment } from './context.ts';
import { Input } from './input.ts';

const commands: Readonly<Record<AgentCommand, CommandHandler>> = {
  chat,
  list,
  show,
  stop,
  pending,
  approve,
  discard,
  agents,
  create,
};

/** Runs the command line and returns the exit code. Prints each error as a line on stderr. */
export async function main(environment: ToolEnvironment): Promise<number> {
  const { program, args, cwd, packageRoot, stdin, stdout, stderr, onExit } = environment;
  try {
    const invocation = parseAgentArguments(args);
    if (invocation.command === 'help' || invocation.command === 'version') {
      const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
        version: string;
      };
      stdout.write(invocation.command === 'help' ? agentHelpText(version, program) : `lathe ${version}\n`);
      return exitCodes.fine;
    }
    const { command, words, flags } = invocation;
    if (cwd === undefined)
      throw new UsageError([
        'the working folder does not exist any more; change to another one, as with `cd ~`',
      ]);
    const { url, token } = await readHostAddress(flags, environment.env);
    // A terminal with unknown width reports 0 columns.
    const width = stdout.isTTY === true ? stdout.columns || 80 : Number.POSITIVE_INFINITY;
    return await commands[command]({
      lathe: new Lathe({ url, ...(token === undefined ? {} : { token }) }),
      words,
      flags,
      environment,
      cwd,
      input: new Input(stdin, stdout, { hasLines: flags.lines === true, onExit }),
      look: { paint: createPainter(stdout), width },
      write: (text) => void stdout.write(text),
    });
  } catch (error) {
    const lines =
      error instanceof UsageError
        ? error.faults
        : [errorMessage(error), ...(error instanceof LatheError ? violationLines(error) : [])];
    for (const line of lines) stderr.write(`lathe agent: ${printable(line)}\n`);
    if (error instanceof UsageError) stderr.write(`See: ${program} --help\n`);
    if (error instanceof UsageError || error instanceof FileError) return exitCodes.usage;
    return error instanceof LatheError ? exitCodes.host : exitCodes.failed;
  }
}
