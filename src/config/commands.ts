/** The words of the command line: which command they are, and what it is about. */
import { hubPrefix, parseReference } from '../pull/reference.ts';
import { flagOf, type OptionName, type Options, UsageError } from './options.ts';
import { didYouMean } from '../words/nearest.ts';
import { readRecorderFlags, type RecorderAction, type RecorderRequest } from './recorder-flags.ts';

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
  | (Shared & {
      readonly verb: 'mcp';
      readonly action: McpAction;
      /** Of a table `[mcp.NAME]`. */
      readonly name?: string;
      readonly json: boolean;
    })
  | (Shared & {
      readonly verb: 'receipts';
      readonly action: 'verify';
      /** A file with one receipt; absent: the chain of the data directory's host. */
      readonly name?: string;
      /** In place of the data directory's own. */
      readonly key?: string;
      readonly json: boolean;
    })
  | (Shared & RecorderRequest & { readonly verb: 'recorder'; readonly json: boolean })
  | { readonly verb: 'help' }
  | { readonly verb: 'version' };

type ModelsAction = 'list' | 'show' | 'rm' | 'verify';
type McpAction = 'list' | 'show' | 'pins';

interface Action {
  readonly name: 'none' | 'needed' | 'optional';
  readonly json: boolean;
}
interface Noun {
  /** What its actions take, for messages; `pull` is the command of that name. */
  readonly actions: Readonly<Record<string, Action>>;
  /** What the one is whose name they take. */
  readonly thing: string;
  readonly options: readonly OptionName[];
}
const nouns: Readonly<Record<'models' | 'mcp' | 'receipts' | 'recorder', Noun>> = {
  models: {
    actions: {
      list: { name: 'none', json: true },
      show: { name: 'needed', json: true },
      pull: { name: 'needed', json: false },
      rm: { name: 'needed', json: false },
      verify: { name: 'optional', json: true },
    } satisfies Record<ModelsAction | 'pull', Action>,
    thing: 'a model',
    options: ['data_dir', 'quiet'],
  },
  mcp: {
    actions: {
      list: { name: 'none', json: true },
      show: { name: 'needed', json: true },
      pins: { name: 'needed', json: true },
    } satisfies Record<McpAction, Action>,
    thing: 'a server',
    options: [],
  },
  receipts: {
    actions: { verify: { name: 'optional', json: true } },
    thing: 'the file of a receipt',
    options: ['data_dir', 'database', 'quiet'],
  },
  recorder: {
    actions: {
      racks: { name: 'none', json: true },
      grants: { name: 'none', json: true },
      grant: { name: 'none', json: true },
      token: { name: 'none', json: true },
      revoke: { name: 'needed', json: true },
      review: { name: 'none', json: true },
    } satisfies Record<RecorderAction, Action>,
    thing: 'a grant or a token, as recorder grants lists them',
    options: ['data_dir', 'quiet'],
  },
};
const commands = ['models', 'pull', 'mcp', 'receipts', 'recorder'];
const pullOptions: readonly OptionName[] = ['data_dir', 'quiet'];

/** Flags that belong to commands alone. */
export interface CommandFlags {
  readonly revision: string | undefined;
  readonly key: string | undefined;
  readonly json: boolean;
  readonly config: string | undefined;
  /** Of the command `recorder`, by their names, as they were written. */
  readonly recorder: ReadonlyMap<string, string>;
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
    if (flags.key !== undefined) faults.push(keyIsOf);
    faults.push(...recorderIsOf(flags));
    if (flags.json) faults.push(`--json belongs to the commands ${Object.keys(nouns).join(', ')}`);
    if (faults.length > 0) throw new UsageError(faults);
    return { verb: 'serve', ...shared };
  }
  const known = commands.includes(verb);
  // After an unknown flag the word is most likely that flag's value.
  if (!known && faults.length === 0) faults.push(unknown('command', verb, commands));
  if (!known) throw new UsageError(faults);
  const noun = isNoun(verb) ? verb : undefined;
  const taken = noun === undefined ? pullOptions : nouns[noun].options;
  for (const name of line.given) {
    if (!taken.includes(name)) faults.push(`${flagOf(name)} does not belong to the command ${verb}`);
  }
  if (noun !== 'receipts' && flags.key !== undefined) faults.push(keyIsOf);
  if (noun !== 'recorder') faults.push(...recorderIsOf(flags));
  if (noun === undefined) return pullOf('pull', rest, { flags, shared, faults });
  const [action, ...names] = rest;
  if (noun === 'models' && action === 'pull') return pullOf('models pull', names, { flags, shared, faults });
  return nounOf(noun, rest, { flags, shared, faults });
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

function nounOf(
  noun: keyof typeof nouns,
  [action, name, ...rest]: readonly string[],
  { flags, shared, faults }: Parsing,
): Command {
  const { actions, thing } = nouns[noun];
  const known = Object.keys(actions);
  const takes = action !== undefined && Object.hasOwn(actions, action) ? actions[action] : undefined;
  if (takes === undefined) {
    faults.push(
      action === undefined
        ? `${noun} needs one of: ${known.join(', ')}`
        : unknown('command', action, known, `${noun} `),
    );
    throw new UsageError(faults);
  }
  const words = `${noun} ${action}`;
  if (takes.name === 'needed' && name === undefined) faults.push(`${words} needs the name of ${thing}`);
  const extra = takes.name === 'none' && name !== undefined ? [name, ...rest] : rest;
  if (extra.length > 0)
    faults.push(`${words} takes ${takes.name === 'none' ? 'no' : 'one'} name, got also ${quoted(extra)}`);
  if (flags.json && !takes.json) faults.push(`--json does not belong to the command ${words}`);
  if (flags.revision !== undefined) faults.push('--revision belongs to the command pull');
  const own =
    noun === 'recorder' ? readRecorderFlags(action as RecorderAction, flags.recorder, faults) : undefined;
  if (faults.length > 0) throw new UsageError(faults);
  // The action is one of the noun's: it was found in its table.
  return {
    verb: noun,
    action,
    ...(name === undefined ? {} : { name }),
    ...(flags.key === undefined ? {} : { key: flags.key }),
    ...own,
    json: flags.json,
    ...shared,
  } as Command;
}

const isNoun = (verb: string): verb is keyof typeof nouns => Object.hasOwn(nouns, verb);

const keyIsOf = '--key belongs to the command receipts verify';

const recorderIsOf = ({ recorder }: CommandFlags): string[] =>
  [...recorder.keys()].map((name) => `--${name} belongs to the command recorder`);

const unknown = (what: string, word: string, known: readonly string[], before = ''): string =>
  `unknown ${what} '${before}${word}'${didYouMean(word, known, (name) => `'${before}${name}'`)}; the ${what}s are: ${known.map((name) => before + name).join(', ')}`;

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ');
