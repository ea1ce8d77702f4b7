import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Lathe, LatheError } from '../client/index.ts';
import { UsageError } from '../config/options.ts';
import { FileError, toFileError } from '../terminal/file-error.ts';
import { printable } from '../terminal/printable.ts';
import { createPainter } from '../terminal/style.ts';
import { errorMessage } from '../util/error-message.ts';
import { chat } from './chat.ts';
import { type AgentCommand, type AgentFlags, agentHelpText, parseAgentArguments } from './command-table.ts';
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
  const { args, packageRoot, stdin, stdout, stderr } = environment;
  try {
    const invocation = parseAgentArguments(args);
    if (invocation.command === 'help' || invocation.command === 'version') {
      const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
        version: string;
      };
      stdout.write(invocation.command === 'help' ? agentHelpText(version) : `lathe ${version}\n`);
      return exitCodes.fine;
    }
    const { command, words, flags } = invocation;
    // A terminal with unknown width reports 0 columns.
    const width = stdout.isTTY === true ? stdout.columns || 80 : Number.POSITIVE_INFINITY;
    return await commands[command]({
      lathe: new Lathe(await hostOf(flags, environment)),
      words,
      flags,
      environment,
      input: new Input(stdin, stdout),
      look: { paint: createPainter(stdout), width },
      write: (text) => void stdout.write(text),
    });
  } catch (error) {
    const lines = error instanceof UsageError ? error.faults : [errorMessage(error), ...violationsOf(error)];
    for (const line of lines) stderr.write(`lathe agent: ${printable(line)}\n`);
    if (error instanceof UsageError) stderr.write('See: node dist/agent.js --help\n');
    if (error instanceof UsageError || error instanceof FileError) return exitCodes.usage;
    return error instanceof LatheError ? exitCodes.host : exitCodes.failed;
  }
}

/** Violations that the message does not already contain. */
const violationsOf = (error: unknown): string[] =>
  error instanceof LatheError
    ? error.violations
        .map(({ path, message }) => `${path}: ${message}`)
        .filter((violation) => !error.message.includes(violation))
        .map((violation) => `  ${violation}`)
    : [];

async function hostOf(flags: AgentFlags, { env }: ToolEnvironment): Promise<{ url: string; token?: string }> {
  const text = flags.url ?? (env['LATHE_URL'] || 'http://127.0.0.1:8080');
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError([
      `${flags.url === undefined ? 'LATHE_URL' : '--url'}: expected http://HOST:PORT, got '${text}'`,
    ]);
  const file = flags['token-file'];
  if (flags.token !== undefined && file !== undefined)
    throw new UsageError(['--token and --token-file exclude each other']);
  const token =
    file === undefined
      ? (flags.token ?? (env['LATHE_TOKEN'] || undefined))
      : (
          await readFile(file, 'utf8').catch((error: unknown) => {
            throw toFileError(file, error);
          })
        ).trim();
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
    throw new UsageError(['the token may contain only visible ASCII characters']);
  return { url: url.origin + url.pathname, ...(token === undefined ? {} : { token }) };
}
