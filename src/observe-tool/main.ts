import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { harmlessJson, printable } from '../terminal/printable.ts';
import { painter } from '../terminal/style.ts';
import { type CommandName, type Flags, observeHelp, parseObserveArguments } from './arguments.ts';
import { ask, query } from './commands/answers.ts';
import { schema, surfaces } from './commands/listing.ts';
import { tail } from './commands/tail.ts';
import type { Run } from './context.ts';
import { faultOf } from './faults.ts';
import { openSource } from './open-source.ts';
import type { ObserveWorld } from './world.ts';

const commands: Readonly<Record<CommandName, Run>> = { surfaces, schema, query, ask, tail };
const exitCodes = { fine: 0, refused: 1, usage: 2 } as const;

/** Runs the command line and returns the exit code. Prints one line per error on stderr. */
export async function main(world: ObserveWorld): Promise<number> {
  let flags: Flags = {};
  try {
    const invocation = parseObserveArguments(world.args);
    if (!('flags' in invocation)) return await about(invocation.command, world);
    flags = invocation.flags;
    await run(invocation.command, invocation.words[0] ?? '', flags, world);
    return exitCodes.fine;
  } catch (error) {
    // Interrupted by a signal, or stdout was closed.
    if (world.over.aborted) return exitCodes.fine;
    const { lines, document, isUsage } = faultOf(error, flags);
    // `--json` counts even if the command line has faults.
    if (world.args.includes('--json'))
      world.stdout.write(`${harmlessJson(JSON.stringify({ error: document }))}\n`);
    for (const line of lines) world.stderr.write(`lathe observe: ${printable(line)}\n`);
    if (isUsage) world.stderr.write('See: node dist/observe.js --help\n');
    return isUsage ? exitCodes.usage : exitCodes.refused;
  }
}

async function run(command: CommandName, word: string, flags: Flags, world: ObserveWorld): Promise<void> {
  const { stdout, stderr } = world;
  const source = await openSource(flags, world);
  // Files and pipes get lines of any length. A terminal of unknown width reports 0.
  const width = stdout.isTTY === true ? stdout.columns || 80 : Number.POSITIVE_INFINITY;
  try {
    await commands[command]({
      source,
      word,
      flags,
      world,
      look: { paint: painter(stdout), width },
      print: (lines) => {
        if (lines.length > 0) stdout.write(`${lines.join('\n')}\n`);
      },
      printJson: (text) => stdout.write(`${harmlessJson(text)}\n`),
      note: (text) => stderr.write(`lathe observe: ${printable(text)}\n`),
    });
  } finally {
    await source.close();
  }
}

async function about(what: 'help' | 'version', { packageRoot, stdout }: ObserveWorld): Promise<number> {
  const { version } = JSON.parse(await readFile(join(packageRoot, 'package.json'), 'utf8')) as {
    version: string;
  };
  stdout.write(what === 'help' ? observeHelp(version) : `lathe ${version}\n`);
  return exitCodes.fine;
}
