import { parseArgs } from 'node:util';
import { type Command, buildCommand } from './commands.ts';
import {
  checkOptions,
  flagNameOf,
  isOptionName,
  type OptionName,
  optionNames,
  optionTable,
} from './options.ts';
import { recorderFlags } from './recorder-flags.ts';
import { didYouMean } from '../words/nearest.ts';

const flags = {
  ...Object.fromEntries(
    optionNames.map((name) => [
      flagNameOf(name).slice(2),
      { type: optionTable[name].kind === 'flag' ? ('boolean' as const) : ('string' as const) },
    ]),
  ),
  config: { type: 'string' as const },
  revision: { type: 'string' as const },
  key: { type: 'string' as const },
  ...Object.fromEntries(recorderFlags.map((name) => [name, { type: 'string' as const }])),
  json: { type: 'boolean' as const },
  help: { type: 'boolean' as const, short: 'h' },
  version: { type: 'boolean' as const, short: 'v' },
};
const flagNames = Object.keys(flags);

/** Parses a command line. Throws `UsageError` with every fault. */
export function parseCommandLine(args: readonly string[]): Command {
  const { tokens } = parseArgs({
    args: [...args],
    options: flags,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const faults: string[] = [];
  const givenOptions = new Map<OptionName, unknown>();
  const commandFlags = new Map<string, string>();
  const positionals: string[] = [];
  const switches = new Set<string>();

  for (const token of tokens) {
    if (token.kind === 'positional') {
      positionals.push(token.value);
      continue;
    }
    if (token.kind !== 'option') continue;
    const known = Object.hasOwn(flags, token.name) ? flags[token.name as keyof typeof flags] : undefined;
    if (known === undefined) {
      faults.push(`unknown flag ${token.rawName}${didYouMean(token.name, flagNames, (name) => `--${name}`)}`);
      continue;
    }
    const name = token.name.replaceAll('-', '_');
    if (known.type === 'boolean') {
      if (token.value === undefined) switches.add(token.name);
      else faults.push(`--${token.name} takes no value, got ${JSON.stringify(token.value)}`);
      if (isOptionName(name)) givenOptions.set(name, true);
      continue;
    }
    // In lenient mode, `parseArgs` takes the next flag as the value in `--model --quiet`: here the value is missing.
    if (token.value === undefined || (!token.inlineValue && /^--?[a-z]/.test(token.value))) {
      faults.push(`--${token.name} needs a value`);
    } else if (!isOptionName(name)) {
      commandFlags.set(name, token.value);
    } else if (optionTable[name].kind === 'list') {
      givenOptions.set(name, [...((givenOptions.get(name) as string[] | undefined) ?? []), token.value]);
    } else {
      givenOptions.set(
        name,
        optionTable[name].kind === 'number' ? toNumberIfInteger(token.value) : token.value,
      );
    }
  }

  if (switches.has('help')) return { verb: 'help' };
  if (switches.has('version')) return { verb: 'version' };

  const checked = checkOptions(givenOptions);
  faults.push(...checked.faults.map(({ option, message }) => `${flagNameOf(option)}: ${message}`));
  return buildCommand(
    positionals,
    {
      options: checked.options,
      givenOptions: givenOptions.keys(),
      flags: {
        config: commandFlags.get('config'),
        revision: commandFlags.get('revision'),
        key: commandFlags.get('key'),
        json: switches.has('json'),
        recorder: new Map([...commandFlags].filter(([name]) => (recorderFlags as string[]).includes(name))),
      },
    },
    faults,
  );
}

/** Parses an integer. Other texts are returned unchanged, so that the option's schema rejects them with its message. */
const toNumberIfInteger = (text: string): number | string =>
  /^-?\d{1,15}$/.test(text) ? Number(text) : text;
