import { parseArgs } from 'node:util';
import {
  checkOptions,
  flagOf,
  isOptionName,
  type OptionName,
  type Options,
  optionNames,
  optionTable,
  UsageError,
} from './options.ts';
import { didYouMean } from './suggest.ts';

export type Command =
  | { readonly verb: 'serve'; readonly options: Options; readonly config?: string }
  | {
      readonly verb: 'pull';
      readonly repo: string;
      readonly file?: string;
      readonly revision?: string;
      readonly options: Options;
      readonly config?: string;
    }
  | { readonly verb: 'help' }
  | { readonly verb: 'version' };

const commands = ['pull'];
const pullOptions: readonly OptionName[] = ['data_dir', 'quiet'];

const flags = {
  ...Object.fromEntries(
    optionNames.map((name) => [
      flagOf(name).slice(2),
      { type: optionTable[name].kind === 'flag' ? ('boolean' as const) : ('string' as const) },
    ]),
  ),
  config: { type: 'string' as const },
  revision: { type: 'string' as const },
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

  const checked = checkOptions(given, flagOf);
  faults.push(...checked.faults);
  const config = extra.get('config');
  const shared = { options: checked.options, ...(config === undefined ? {} : { config }) };
  const [verb, target, ...rest] = words;

  if (verb === undefined) {
    if (extra.has('revision')) faults.push('--revision belongs to the command pull');
    if (faults.length > 0) throw new UsageError(faults);
    return { verb: 'serve', ...shared };
  }
  if (verb !== 'pull') {
    // After an unknown flag the word is most likely that flag's value.
    if (faults.length === 0)
      faults.push(
        `unknown command '${verb}'${didYouMean(verb, commands, (name) => `'${name}'`)}; the commands are: ${commands.join(', ')}`,
      );
    throw new UsageError(faults);
  }
  if (target === undefined)
    faults.push('pull needs REPO or REPO:FILE, for example: pull owner/model-GGUF:model-Q8_0.gguf');
  if (rest.length > 0)
    faults.push(`pull takes one REPO[:FILE], got also ${rest.map((word) => `'${word}'`).join(', ')}`);
  for (const name of given.keys()) {
    if (!pullOptions.includes(name)) faults.push(`${flagOf(name)} does not belong to the command pull`);
  }
  if (faults.length > 0 || target === undefined) throw new UsageError(faults);
  const colon = target.indexOf(':');
  const file = colon === -1 ? undefined : target.slice(colon + 1);
  const repo = colon === -1 ? target : target.slice(0, colon);
  if (repo === '' || file === '') throw new UsageError([`'${target}' is not REPO or REPO:FILE`]);
  const revision = extra.get('revision');
  return {
    verb: 'pull',
    repo,
    ...(file === undefined ? {} : { file }),
    ...(revision === undefined ? {} : { revision }),
    ...shared,
  };
}

/** A whole number, or the text itself, which the option's schema then refuses with its own words. */
const asNumber = (text: string): number | string => (/^-?\d{1,15}$/.test(text) ? Number(text) : text);
