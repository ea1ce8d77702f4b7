import { type FlagsOf, type InvocationOf, parseArguments } from '../terminal/arguments.ts';
import { toolHelp } from '../terminal/help.ts';
import { observeTable } from './command-table.ts';

export type Flags = FlagsOf<typeof observeTable>;
type Invocation = InvocationOf<typeof observeTable>;
export type CommandName = keyof (typeof observeTable)['commands'];

/** Reads a command line. Throws `UsageError` with every fault. */
export const parseObserveArguments = (args: readonly string[]): Invocation =>
  parseArguments(observeTable, args);

export const observeHelp = (version: string): string =>
  toolHelp(observeTable, {
    head: [
      `lathe ${version}: what a host did, and what it cost`,
      '',
      'Usage: node dist/observe.js COMMAND [options]',
      '  It asks the host that runs on the data directory; where none runs, it reads',
      '  the directory itself and changes nothing there. Examples: docs/observe.md',
    ],
    exitCodes: [
      ['0', 'fine'],
      ['1', 'no host there, or it refused; a database that cannot be read'],
      ['2', 'wrong usage, a query with faults, or a file that cannot be read'],
    ],
  });
