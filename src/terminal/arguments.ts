import { parseArgs } from 'node:util';
import { UsageError } from '../config/usage.ts';
import { didYouMean } from '../words/nearest.ts';

export interface FlagRow {
  readonly kind: 'flag' | 'text' | 'number' | 'list';
  /** Placeholder of the value in the help text. */
  readonly value?: string;
  readonly help: string;
}

export interface CommandRow {
  /** Placeholders of the positional arguments, for the help text. */
  readonly placeholders: string;
  readonly minWords: number;
  readonly maxWords: number;
  readonly flags: readonly string[];
  readonly help: string;
}

/** Commands and flags of a tool. */
export interface ToolTable {
  readonly flags: Readonly<Record<string, FlagRow>>;
  readonly commands: Readonly<Record<string, CommandRow>>;
  /** Flags that every command takes. */
  readonly shared: readonly string[];
  /** The command of a command line that names none; default: there must be one. */
  readonly defaultCommand?: string;
}

type ValueOf<Kind> = Kind extends 'flag'
  ? true
  : Kind extends 'number'
    ? number
    : Kind extends 'list'
      ? string[]
      : string;
export type FlagsOf<Table extends ToolTable> = {
  readonly [Name in keyof Table['flags']]?: ValueOf<Table['flags'][Name]['kind']>;
};

export type InvocationOf<Table extends ToolTable> =
  | {
      readonly command: keyof Table['commands'] & string;
      readonly words: readonly string[];
      readonly flags: FlagsOf<Table>;
    }
  | { readonly command: 'help' }
  | { readonly command: 'version' };

/** Parses a command line. Throws `UsageError` with all faults. */
export function parseArguments<Table extends ToolTable>(
  table: Table,
  args: readonly string[],
): InvocationOf<Table> {
  const flagNames = Object.keys(table.flags);
  const commandNames = Object.keys(table.commands);
  const knownFlags = [...flagNames, 'help', 'version'];
  const { tokens } = parseArgs({
    args: [...args],
    options: optionsOf(table),
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const faults: string[] = [];
  const flags: Record<string, unknown> = {};
  const [verb = table.defaultCommand, ...words] = tokens.flatMap((token) =>
    token.kind === 'positional' ? [token.value] : [],
  );

  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const { name, value } = token;
    if (name === 'help') return { command: name };
    if (name === 'version') return { command: name };
    const row = Object.hasOwn(table.flags, name) ? table.flags[name] : undefined;
    if (!row) {
      faults.push(`unknown flag ${token.rawName}${didYouMean(name, knownFlags, (near) => `--${near}`)}`);
      continue;
    }
    if (row.kind === 'flag') {
      if (value !== undefined) faults.push(`--${name} takes no value, got ${JSON.stringify(value)}`);
      flags[name] = true;
      // In lenient mode parseArgs reads the next flag as the value; the user forgot the value. A number may be
      // negative.
    } else if (value === undefined || value === '' || (!token.inlineValue && /^--?[a-z]/.test(value))) {
      faults.push(`--${name} needs a value`);
    } else if (row.kind === 'number') {
      const number = Number(value);
      if (Number.isFinite(number)) flags[name] = number;
      else faults.push(`--${name}: expected a number, got ${JSON.stringify(value)}`);
    } else if (row.kind === 'list') {
      flags[name] = [...((flags[name] as string[] | undefined) ?? []), value];
    } else {
      flags[name] = value;
    }
  }

  if (verb === 'help' && words.length === 0) return { command: 'help' };
  if (verb === undefined) faults.push(`name a command: ${commandNames.join(', ')}`);
  else if (!Object.hasOwn(table.commands, verb)) {
    // After an unknown flag the word is most likely that flag's value.
    if (faults.length === 0)
      faults.push(
        `unknown command '${verb}'${didYouMean(verb, commandNames, (near) => `'${near}'`)}; the commands are: ${commandNames.join(', ')}`,
      );
  } else {
    faults.push(...misplacedFaults(table, verb, words, Object.keys(flags)));
    if (faults.length === 0) return { command: verb, words, flags: flags as FlagsOf<Table> };
  }
  throw new UsageError(faults);
}

/** Faults of flags and positional arguments that a command does not take. */
function misplacedFaults(
  { commands, shared }: ToolTable,
  verb: string,
  words: readonly string[],
  flags: readonly string[],
): string[] {
  const row = commands[verb];
  if (!row) return [];
  const acceptedFlags = [...shared, ...row.flags];
  const faults = flags
    .filter((name) => !acceptedFlags.includes(name))
    .map((name) => `--${name} does not belong to the command ${verb}`);
  if (words.length >= row.minWords && words.length <= row.maxWords) return faults;
  const got = words.length === 0 ? 'none' : words.map((word) => `'${word}'`).join(' ');
  return [
    ...faults,
    `${verb} takes ${row.placeholders === '' ? 'no arguments' : row.placeholders}, got ${got}`,
  ];
}

const optionsOf = ({ flags }: ToolTable) => ({
  ...Object.fromEntries(
    Object.entries(flags).map(([name, { kind }]) => [
      name,
      { type: kind === 'flag' ? ('boolean' as const) : ('string' as const) },
    ]),
  ),
  help: { type: 'boolean' as const, short: 'h' },
  version: { type: 'boolean' as const, short: 'v' },
});

/** The values of a list flag, which can be repeated or separated by commas. */
export const splitList = (values: readonly string[] | undefined): string[] =>
  (values ?? [])
    .flatMap((value) => value.split(',').map((part) => part.trim()))
    .filter((part) => part !== '');
