/** The words of the command line: which command they are, and what it is about. */
import { hubPrefix, parseReference } from '../pull/reference.ts';
import { flagOf, type OptionName, type Options, UsageError } from './options.ts';
import { didYouMean } from './suggest.ts';

interface Shared {
  readonly options: Options;
  readonly config?: string;
}

export type Command =
  | (Shared & { readonly verb: 'serve' })
  | (Shared & {
      readonly verb: 'pull';
      readonly repo: string;
      readonly file?: string;
      readonly revision?: string;
    })
  | (Shared & {
      readonly verb: 'models';
      readonly action: ModelsAction;
      /** Of a pulled model; of `show` and `verify` also a path, a URL or `hf:`. */
      readonly name?: string;
      readonly json: boolean;
    })
  | { readonly verb: 'help' }
  | { readonly verb: 'version' };

type ModelsAction = 'list' | 'show' | 'rm' | 'verify';

/** What each action takes, for messages; `pull` is the command of that name. */
const actions: Readonly<
  Record<ModelsAction | 'pull', { name: 'none' | 'needed' | 'optional'; json: boolean }>
> = {
  list: { name: 'none', json: true },
  show: { name: 'needed', json: true },
  pull: { name: 'needed', json: false },
  rm: { name: 'needed', json: false },
  verify: { name: 'optional', json: true },
};
const commands = ['models', 'pull'];
const ownOptions: readonly OptionName[] = ['data_dir', 'quiet'];

/** Flags that belong to commands alone. */
export interface CommandFlags {
  readonly revision: string | undefined;
  readonly json: boolean;
  readonly config: string | undefined;
}

/**
 * @param words positional, in order; none serves
 * @param given options that were named
 * @param faults found so far; more are added, and thrown together
 */
export function commandOf(
  words: readonly string[],
  line: { options: Options; given: Iterable<OptionName>; flags: CommandFlags },
  faults: string[],
): Command {
  const { flags } = line;
  const shared = {
    options: line.options,
    ...(flags.config === undefined ? {} : { config: flags.config }),
  };
  const [verb, ...rest] = words;
  if (verb === undefined) {
    if (flags.revision !== undefined) faults.push('--revision belongs to the command pull');
    if (flags.json) faults.push('--json belongs to the command models');
    if (faults.length > 0) throw new UsageError(faults);
    return { verb: 'serve', ...shared };
  }
  const known = commands.includes(verb);
  // After an unknown flag the word is most likely that flag's value.
  if (!known && faults.length === 0) faults.push(unknown('command', verb, commands));
  if (!known) throw new UsageError(faults);
  for (const name of line.given) {
    if (!ownOptions.includes(name)) faults.push(`${flagOf(name)} does not belong to the command ${verb}`);
  }
  if (verb === 'pull') return pullOf('pull', rest, { flags, shared, faults });
  const [action, ...names] = rest;
  if (action === 'pull') return pullOf('models pull', names, { flags, shared, faults });
  return modelsOf(action, names, { flags, shared, faults });
}

interface Parsing {
  readonly flags: CommandFlags;
  readonly shared: Shared;
  readonly faults: string[];
}

function pullOf(
  words: string,
  [target, ...rest]: readonly string[],
  { flags, shared, faults }: Parsing,
): Command {
  if (target === undefined)
    faults.push(`${words} needs REPO or REPO:FILE, for example: pull owner/model-GGUF:model-Q8_0.gguf`);
  if (rest.length > 0) faults.push(`${words} takes one REPO[:FILE], got also ${quoted(rest)}`);
  if (flags.json) faults.push(`--json does not belong to the command ${words}`);
  const named = (target ?? '').replace(hubPrefix, '');
  // What is no reference is refused where it is used, in words about repositories.
  const colon = named.indexOf(':');
  const { repo, file, revision } = parseReference(named) ?? {
    repo: colon === -1 ? named : named.slice(0, colon),
    ...(colon === -1 ? {} : { file: named.slice(colon + 1) }),
  };
  if (target !== undefined && (repo === '' || file === ''))
    faults.push(`'${target}' is not REPO or REPO:FILE`);
  if (revision !== undefined && flags.revision !== undefined)
    faults.push(`two revisions: @${revision} and --revision ${flags.revision}; name one`);
  if (faults.length > 0) throw new UsageError(faults);
  const wanted = revision ?? flags.revision;
  return {
    verb: 'pull',
    repo,
    ...(file === undefined ? {} : { file }),
    ...(wanted === undefined ? {} : { revision: wanted }),
    ...shared,
  };
}

function modelsOf(
  action: string | undefined,
  [name, ...rest]: readonly string[],
  { flags, shared, faults }: Parsing,
): Command {
  const known = Object.keys(actions);
  if (!isAction(action)) {
    faults.push(
      action === undefined
        ? `models needs one of: ${known.join(', ')}`
        : unknown('command', action, known, 'models '),
    );
    throw new UsageError(faults);
  }
  const { name: takes, json } = actions[action];
  if (takes === 'needed' && name === undefined) faults.push(`models ${action} needs the name of a model`);
  const extra = takes === 'none' && name !== undefined ? [name, ...rest] : rest;
  if (extra.length > 0)
    faults.push(`models ${action} takes ${takes === 'none' ? 'no' : 'one'} name, got also ${quoted(extra)}`);
  if (flags.json && !json) faults.push(`--json does not belong to the command models ${action}`);
  if (flags.revision !== undefined) faults.push('--revision belongs to the command pull');
  if (faults.length > 0) throw new UsageError(faults);
  return { verb: 'models', action, ...(name === undefined ? {} : { name }), json: flags.json, ...shared };
}

const isAction = (action: string | undefined): action is ModelsAction =>
  action !== undefined && action !== 'pull' && Object.hasOwn(actions, action);

const unknown = (what: string, word: string, known: readonly string[], before = ''): string =>
  `unknown ${what} '${before}${word}'${didYouMean(word, known, (name) => `'${before}${name}'`)}; the ${what}s are: ${known.map((name) => before + name).join(', ')}`;

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ');
