/** Parses the positional arguments of the command line into a command. */
import { hubPrefix, parseReference } from '../pull/reference.ts';
import { flagNameOf, type OptionName, type Options, UsageError } from './options.ts';
import { didYouMean } from '../words/nearest.ts';
import { parseRecorderFlags, type RecorderAction, type RecorderRequest } from './recorder-flags.ts';

interface CommonArguments {
  readonly options: Options;
  readonly config?: string;
}

export type Command =
  | (CommonArguments & { readonly verb: 'serve' })
  | (CommonArguments & {
      readonly verb: 'pull';
      readonly repo: string;
      readonly file?: string;
      readonly revision?: string;
    })
  | (CommonArguments & {
      readonly verb: 'models';
      readonly action: ModelsAction;
      /** Name of a pulled model; for `show` and `verify` also a path, a URL or `hf:`. */
      readonly name?: string;
      readonly json: boolean;
    })
  | (CommonArguments & {
      readonly verb: 'mcp';
      readonly action: McpAction;
      /** NAME of a table `[mcp.NAME]`. */
      readonly name?: string;
      readonly json: boolean;
    })
  | (CommonArguments & {
      readonly verb: 'receipts';
      readonly action: 'verify';
      /** A file with one receipt; absent: the chain of the data directory's host. */
      readonly name?: string;
      /** Public key to verify with, in place of the data directory's own. */
      readonly key?: string;
      readonly json: boolean;
    })
  | (CommonArguments & RecorderRequest & { readonly verb: 'recorder'; readonly json: boolean })
  | { readonly verb: 'help' }
  | { readonly verb: 'version' };

type ModelsAction = 'list' | 'show' | 'rm' | 'verify';
type McpAction = 'list' | 'show' | 'pins';

interface Action {
  readonly name: 'none' | 'needed' | 'optional';
  readonly json: boolean;
}
interface Noun {
  /** The actions and their arguments. `models pull` is the same as the command `pull`. */
  readonly actions: Readonly<Record<string, Action>>;
  /** What the actions' argument names, for messages. */
  readonly argumentDescription: string;
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
    argumentDescription: 'a model',
    options: ['data_dir', 'quiet'],
  },
  mcp: {
    actions: {
      list: { name: 'none', json: true },
      show: { name: 'needed', json: true },
      pins: { name: 'needed', json: true },
    } satisfies Record<McpAction, Action>,
    argumentDescription: 'a server',
    options: [],
  },
  receipts: {
    actions: { verify: { name: 'optional', json: true } },
    argumentDescription: 'the file of a receipt',
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
    argumentDescription: 'a grant or a token, as recorder grants lists them',
    options: ['data_dir', 'quiet'],
  },
};
const commands = ['models', 'pull', 'mcp', 'receipts', 'recorder'];
const pullOptions: readonly OptionName[] = ['data_dir', 'quiet'];

/** Flags that belong to commands only. */
export interface CommandFlags {
  readonly revision: string | undefined;
  readonly key: string | undefined;
  readonly json: boolean;
  readonly config: string | undefined;
  /** Flags of the command `recorder`, by name, unparsed. */
  readonly recorder: ReadonlyMap<string, string>;
}

/**
 * Builds the command of a command line.
 * @param words positional arguments, in order; without any, the command is `serve`
 * @param line the options and flags that were given
 * @param faults faults found so far; more are added, and all are thrown together
 */
export function buildCommand(
  positionals: readonly string[],
  line: { options: Options; givenOptions: Iterable<OptionName>; flags: CommandFlags },
  faults: string[],
): Command {
  const { flags } = line;
  const shared = {
    options: line.options,
    ...(flags.config === undefined ? {} : { config: flags.config }),
  };
  const [verb, ...rest] = positionals;
  if (verb === undefined) {
    if (flags.revision !== undefined) faults.push('--revision belongs to the command pull');
    if (flags.key !== undefined) faults.push(keyFlagFault);
    faults.push(...recorderFlagFaults(flags));
    if (flags.json) faults.push(`--json belongs to the commands ${Object.keys(nouns).join(', ')}`);
    if (faults.length > 0) throw new UsageError(faults);
    return { verb: 'serve', ...shared };
  }
  const known = commands.includes(verb);
  // After an unknown flag, the argument is most likely that flag's value.
  if (!known && faults.length === 0) faults.push(unknownWordFault('command', verb, commands));
  if (!known) throw new UsageError(faults);
  const noun = isNoun(verb) ? verb : undefined;
  const allowedOptions = noun === undefined ? pullOptions : nouns[noun].options;
  for (const name of line.givenOptions) {
    if (!allowedOptions.includes(name))
      faults.push(`${flagNameOf(name)} does not belong to the command ${verb}`);
  }
  if (noun !== 'receipts' && flags.key !== undefined) faults.push(keyFlagFault);
  if (noun !== 'recorder') faults.push(...recorderFlagFaults(flags));
  if (noun === undefined) return buildPullCommand('pull', rest, { flags, shared, faults });
  const [action, ...names] = rest;
  if (noun === 'models' && action === 'pull')
    return buildPullCommand('models pull', names, { flags, shared, faults });
  return buildNounCommand(noun, rest, { flags, shared, faults });
}

interface ParseState {
  readonly flags: CommandFlags;
  readonly shared: CommonArguments;
  readonly faults: string[];
}

function buildPullCommand(
  commandText: string,
  [target, ...rest]: readonly string[],
  { flags, shared, faults }: ParseState,
): Command {
  if (target === undefined)
    faults.push(`${commandText} needs REPO or REPO:FILE, for example: pull owner/model-GGUF:model-Q8_0.gguf`);
  if (rest.length > 0) faults.push(`${commandText} takes one REPO[:FILE], got also ${quoted(rest)}`);
  if (flags.json) faults.push(`--json does not belong to the command ${commandText}`);
  const named = (target ?? '').replace(hubPrefix, '');
  // Invalid references are rejected later, with a message about repositories.
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
  const revisionOrFlag = revision ?? flags.revision;
  return {
    verb: 'pull',
    repo,
    ...(file === undefined ? {} : { file }),
    ...(revisionOrFlag === undefined ? {} : { revision: revisionOrFlag }),
    ...shared,
  };
}

function buildNounCommand(
  noun: keyof typeof nouns,
  [action, name, ...rest]: readonly string[],
  { flags, shared, faults }: ParseState,
): Command {
  const { actions, argumentDescription } = nouns[noun];
  const known = Object.keys(actions);
  const actionRow = action !== undefined && Object.hasOwn(actions, action) ? actions[action] : undefined;
  if (actionRow === undefined) {
    faults.push(
      action === undefined
        ? `${noun} needs one of: ${known.join(', ')}`
        : unknownWordFault('command', action, known, `${noun} `),
    );
    throw new UsageError(faults);
  }
  const commandText = `${noun} ${action}`;
  if (actionRow.name === 'needed' && name === undefined)
    faults.push(`${commandText} needs the name of ${argumentDescription}`);
  const extra = actionRow.name === 'none' && name !== undefined ? [name, ...rest] : rest;
  if (extra.length > 0)
    faults.push(
      `${commandText} takes ${actionRow.name === 'none' ? 'no' : 'one'} name, got also ${quoted(extra)}`,
    );
  if (flags.json && !actionRow.json) faults.push(`--json does not belong to the command ${commandText}`);
  if (flags.revision !== undefined) faults.push('--revision belongs to the command pull');
  const recorderRequest =
    noun === 'recorder' ? parseRecorderFlags(action as RecorderAction, flags.recorder, faults) : undefined;
  if (faults.length > 0) throw new UsageError(faults);
  // The cast is safe: the action was found in the noun's table.
  return {
    verb: noun,
    action,
    ...(name === undefined ? {} : { name }),
    ...(flags.key === undefined ? {} : { key: flags.key }),
    ...recorderRequest,
    json: flags.json,
    ...shared,
  } as Command;
}

const isNoun = (verb: string): verb is keyof typeof nouns => Object.hasOwn(nouns, verb);

const keyFlagFault = '--key belongs to the command receipts verify';

const recorderFlagFaults = ({ recorder }: CommandFlags): string[] =>
  [...recorder.keys()].map((name) => `--${name} belongs to the command recorder`);

const unknownWordFault = (what: string, word: string, known: readonly string[], prefix = ''): string =>
  `unknown ${what} '${prefix}${word}'${didYouMean(word, known, (name) => `'${prefix}${name}'`)}; the ${what}s are: ${known.map((name) => prefix + name).join(', ')}`;

const quoted = (positionals: readonly string[]): string => positionals.map((word) => `'${word}'`).join(', ');
