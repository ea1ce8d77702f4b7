import { parseArgs } from 'node:util';
import { type Command, commandOf } from './commands.ts';
import { checkOptions, flagOf, isOptionName, type OptionName, optionNames, optionTable } from './options.ts';
import { recorderFlags } from './recorder-flags.ts';
import { didYouMean } from '../words/nearest.ts';

const flags = {
  ...Object.fromEntries(
    optionNames.map((name) => [
      flagOf(name).slice(2),
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

/** Reads a command line. Throws `UsageError` with every fault. */
export function parseCommandLine(args: readonly string[]): Command {
  const { tokens } = parseArgs({
    args: [...args],
    options: flags,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const faults: string[] = [];
  const given = new Map<OptionName, unknown>();
  const extra = new Map<string, string>();
  const words: string[] = [];
  const asked = new Set<string>();

  for (const token of tokens) {
    if (token.kind === 'positional') {
      words.push(token.value);
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
      if (token.value === undefined) asked.add(token.name);
      else faults.push(`--${token.name} takes no value, got ${JSON.stringify(token.value)}`);
      if (isOptionName(name)) given.set(name, true);
      continue;
    }
    // `--model --quiet` takes the next flag as the value in the lenient mode; that is a forgotten value.
    if (token.value === undefined || (!token.inlineValue && /^--?[a-z]/.test(token.value))) {
      faults.push(`--${token.name} needs a value`);
    } else if (!isOptionName(name)) {
      extra.set(name, token.value);
    } else if (optionTable[name].kind === 'list') {
      given.set(name, [...((given.get(name) as string[] | undefined) ?? []), token.value]);
    } else {
      given.set(name, optionTable[name].kind === 'number' ? asNumber(token.value) : token.value);
    }
  }

  if (asked.has('help')) return { verb: 'help' };
  if (asked.has('version')) return { verb: 'version' };

  const checked = checkOptions(given);
  faults.push(...checked.faults.map(({ option, message }) => `${flagOf(option)}: ${message}`));
  return commandOf(
    words,
    {
      options: checked.options,
      given: given.keys(),
      flags: {
        config: extra.get('config'),
        revision: extra.get('revision'),
        key: extra.get('key'),
        json: asked.has('json'),
        recorder: new Map([...extra].filter(([name]) => (recorderFlags as string[]).includes(name))),
      },
    },
    faults,
  );
}

/** A whole number, or the text itself, which the option's schema then refuses with its own words. */
const asNumber = (text: string): number | string => (/^-?\d{1,15}$/.test(text) ? Number(text) : text);
