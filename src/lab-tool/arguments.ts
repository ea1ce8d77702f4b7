import { parseArgs } from 'node:util';
import { UsageError } from '../config/options.ts';
import { didYouMean } from '../words/nearest.ts';
import {
  type CommandName,
  commandNames,
  commandTable,
  type FlagName,
  flagNames,
  flagTable,
  isCommandName,
  sharedFlags,
} from './command-table.ts';

type ValueOf<Kind> = Kind extends 'flag'
  ? true
  : Kind extends 'number'
    ? number
    : Kind extends 'list'
      ? string[]
      : string;
export type Flags = { readonly [Name in FlagName]?: ValueOf<(typeof flagTable)[Name]['kind']> };

export type Invocation =
  | { readonly command: CommandName; readonly words: readonly string[]; readonly flags: Flags }
  | { readonly command: 'help' }
  | { readonly command: 'version' };

const options = {
  ...Object.fromEntries(
    flagNames.map((name) => [
      name,
      { type: flagTable[name].kind === 'flag' ? ('boolean' as const) : ('string' as const) },
    ]),
  ),
  help: { type: 'boolean' as const, short: 'h' },
  version: { type: 'boolean' as const, short: 'v' },
};
const known = [...flagNames, 'help', 'version'];
const isFlagName = (name: string): name is FlagName => Object.hasOwn(flagTable, name);

/** Reads a command line. Throws `UsageError` with every fault. */
export function parseLabArguments(args: readonly string[]): Invocation {
  const { tokens } = parseArgs({
    args: [...args],
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const faults: string[] = [];
  const flags: Partial<Record<FlagName, unknown>> = {};
  const [verb, ...words] = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []));

  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const { name, value } = token;
    if (name === 'help' || name === 'version') return { command: name };
    if (!isFlagName(name)) {
      faults.push(`unknown flag ${token.rawName}${didYouMean(name, known, (near) => `--${near}`)}`);
      continue;
    }
    const { kind } = flagTable[name];
    if (kind === 'flag') {
      if (value !== undefined) faults.push(`--${name} takes no value, got ${JSON.stringify(value)}`);
      flags[name] = true;
      // The lenient mode takes the next flag as the value; that is a forgotten value. A number may be negative.
    } else if (value === undefined || value === '' || (!token.inlineValue && /^--?[a-z]/.test(value))) {
      faults.push(`--${name} needs a value`);
    } else if (kind === 'number') {
      const number = Number(value);
      if (Number.isFinite(number)) flags[name] = number;
      else faults.push(`--${name}: expected a number, got ${JSON.stringify(value)}`);
    } else if (kind === 'list') {
      flags[name] = [...((flags[name] as string[] | undefined) ?? []), value];
    } else {
      flags[name] = value;
    }
  }

  if (verb === 'help' && words.length === 0) return { command: 'help' };
  if (verb === undefined) faults.push(`name a command: ${commandNames.join(', ')}`);
  else if (!isCommandName(verb)) {
    // After an unknown flag the word is most likely that flag's value.
    if (faults.length === 0)
      faults.push(
        `unknown command '${verb}'${didYouMean(verb, commandNames, (near) => `'${near}'`)}; the commands are: ${commandNames.join(', ')}`,
      );
  } else {
    const row = commandTable[verb];
    const taken: readonly FlagName[] = [...sharedFlags, ...row.flags];
    for (const name of Object.keys(flags)) {
      if (!taken.includes(name as FlagName)) faults.push(`--${name} does not belong to the command ${verb}`);
    }
    if (words.length < row.least || words.length > row.most)
      faults.push(
        `${verb} takes ${row.words === '' ? 'no further words' : row.words}, got ${words.length === 0 ? 'none' : words.map((word) => `'${word}'`).join(' ')}`,
      );
    if (faults.length === 0) return { command: verb, words, flags: flags as Flags };
  }
  throw new UsageError(faults);
}

/** The values of a list flag: repeated, or separated by commas. */
export const listOf = (given: readonly string[] | undefined): string[] =>
  (given ?? []).flatMap((each) => each.split(',').map((part) => part.trim())).filter((part) => part !== '');
