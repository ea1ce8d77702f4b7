import { type FlagsOf, type InvocationOf, parseArguments } from '../terminal/arguments.ts';
import { commandTable, flagTable, sharedFlags } from './command-table.ts';

export const labTable = { flags: flagTable, commands: commandTable, shared: sharedFlags } as const;

export type Flags = FlagsOf<typeof labTable>;
export type Invocation = InvocationOf<typeof labTable>;

/** Parses the command line. Throws `UsageError` with all errors. */
export const parseLabArguments = (args: readonly string[]): Invocation => parseArguments(labTable, args);
