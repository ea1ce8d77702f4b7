import { type FlagsOf, type InvocationOf, parseArguments } from '../terminal/arguments.ts';
import { toolHelp } from '../terminal/help.ts';
import { observeTable } from './command-table.ts';
import { commandOf } from '../terminal/program.ts';

export type Flags = FlagsOf<typeof observeTable>;
type Invocation = InvocationOf<typeof observeTable>;
export type CommandName = keyof (typeof observeTable)['commands'];

/** Parses a command line. Throws `UsageError` with all faults. */
export const parseObserveArguments = (args: readonly string[]): Invocation =>
  parseArguments(observeTable, args);

export const observeHelp = (version: string): string =>
  toolHelp(observeTable, {
    header: [
      `lathe ${version}: query what a host did and what it cost`,
      '',
      `Usage: ${commandOf('observe')} COMMAND [options]`,
      '  Queries go to the host that runs on the data directory. If none runs, the',
      '  directory is read directly and not changed. Examples: docs/observe.md',
    ],
    exitCodes: [
      ['0', 'success'],
      ['1', 'no host, a refused request, or an unreadable database'],
      ['2', 'wrong usage, an invalid query, or an unreadable file'],
    ],
  });
