import { UsageError } from '../../config/usage.ts';
import { didYouMean } from '../../words/nearest.ts';
import {
  adminFlags,
  commonFlags,
  type FlagName,
  flagNames,
  flags,
  type FlagValues,
  isFlag,
} from './flags.ts';

/** Flags without a value that only some commands have, with their help. */
export const switchHelp = {
  csv: 'print the result as CSV',
  'with-descendants': 'with --account: also what the accounts below it used',
} as const;
export type SwitchName = keyof typeof switchHelp;
const isSwitch = (name: string): name is SwitchName => Object.hasOwn(switchHelp, name);

interface CommandRow {
  /** Names of the command's positional arguments; all are required. */
  readonly words: readonly string[];
  readonly flags: readonly FlagName[];
  readonly needed?: readonly FlagName[];
  /** Flags without a value. */
  readonly switches?: readonly SwitchName[];
  /** Whether it can also work on a running gateway, by its admin API. */
  readonly hasAdminApi?: true;
  readonly help: string;
}

export const commands = {
  serve: {
    words: [],
    flags: [
      'host',
      'port',
      'grace-secs',
      'admin-host',
      'admin-port',
      'admin-token-file',
      'log-format',
      'log-sample',
      'otlp-endpoint',
    ],
    help: 'serve the gateway',
  },
  'account create': {
    words: ['NAME'],
    flags: ['credit-usd', 'included-usd', 'parent'],
    hasAdminApi: true,
    help: 'create an account',
  },
  'account credit': {
    words: ['NAME', 'USD'],
    flags: ['note'],
    hasAdminApi: true,
    help: 'add credits to an account; a negative amount corrects a mistake',
  },
  'account update': {
    words: ['NAME'],
    flags: ['name', 'parent'],
    hasAdminApi: true,
    help: 'change an account',
  },
  'account disable': {
    words: ['NAME'],
    flags: [],
    hasAdminApi: true,
    help: 'refuse all keys of an account, until it is enabled',
  },
  'account enable': { words: ['NAME'], flags: [], hasAdminApi: true, help: 'enable a disabled account' },
  'account list': { words: [], flags: [], hasAdminApi: true, help: 'list accounts and their balances' },
  'key create': {
    words: [],
    flags: ['account', 'label', 'cap-usd', 'expires', 'models', 'rpm', 'tpm', 'concurrency'],
    needed: ['account'],
    hasAdminApi: true,
    help: 'create an API key and print it; it is shown only once',
  },
  'key update': {
    words: ['ID'],
    flags: ['label', 'cap-usd', 'expires', 'models', 'rpm', 'tpm', 'concurrency'],
    hasAdminApi: true,
    help: 'change an API key; running gateways observe it at once',
  },
  'key disable': {
    words: ['ID'],
    flags: [],
    hasAdminApi: true,
    help: 'refuse an API key, until it is enabled',
  },
  'key enable': { words: ['ID'], flags: [], hasAdminApi: true, help: 'enable a disabled API key' },
  'key revoke': { words: ['ID'], flags: [], hasAdminApi: true, help: 'revoke an API key permanently' },
  'key list': {
    words: [],
    flags: ['account'],
    hasAdminApi: true,
    help: 'list API keys, without their secrets',
  },
  usage: {
    words: [],
    flags: ['by', 'since', 'until', 'account'],
    switches: ['csv', 'with-descendants'],
    hasAdminApi: true,
    help: 'show requests, tokens and spend of a period',
  },
  'budget set': {
    words: [],
    flags: ['key', 'account', 'usd', 'per', 'time-zone'],
    needed: ['usd', 'per'],
    hasAdminApi: true,
    help: 'limit what a key, or an account with the accounts below it, spends in a period; or change that limit',
  },
  'budget remove': { words: ['ID'], flags: [], hasAdminApi: true, help: 'remove a budget' },
  'budget list': {
    words: [],
    flags: ['account'],
    hasAdminApi: true,
    help: 'list budgets and what is spent of them',
  },
  receipt: {
    words: ['ID'],
    flags: [],
    hasAdminApi: true,
    help: 'show one request of any key: its hold, its cost and what it moved between accounts',
  },
  changes: {
    words: [],
    flags: ['account', 'limit'],
    hasAdminApi: true,
    help: 'list changes of accounts and keys, the newest first',
  },
  'ledger audit': { words: [], flags: [], help: 'check the consistency of the ledger' },
  'ledger archive': {
    words: ['DIR'],
    flags: ['before'],
    needed: ['before'],
    help: 'move the requests of old days to files, one for each day; their sums stay in the ledger',
  },
  'ledger verify': {
    words: ['DIR'],
    flags: [],
    help: 'compare the files of `ledger archive` with the ledger',
  },
  'provider list': {
    words: [],
    flags: [],
    hasAdminApi: true,
    help: 'list the providers of a running gateway and the health of their deployments',
  },
  'provider disable': {
    words: ['ID'],
    flags: ['model', 'note'],
    hasAdminApi: true,
    help: 'send no more requests to a provider, or to one model at it, until it is enabled',
  },
  'provider enable': {
    words: ['ID'],
    flags: ['model'],
    hasAdminApi: true,
    help: 'enable a disabled provider, or one model at it',
  },
  'credential list': {
    words: [],
    flags: [],
    hasAdminApi: true,
    help: "list where the providers' keys of a running gateway come from, and which ones are in force",
  },
  reload: {
    words: [],
    flags: [],
    hasAdminApi: true,
    help: 'have a running gateway read its configuration again',
  },
  'cache clear': {
    words: [],
    flags: ['account'],
    hasAdminApi: true,
    help: 'remove the stored answers of an account, or of all',
  },
  'webhook test': {
    words: [],
    flags: [],
    help: 'send a test notice to the webhook of the configuration',
  },
  'catalog check': { words: [], flags: [], help: 'check the configuration and show its models' },
  'catalog import': {
    words: ['PRICES'],
    flags: ['provider', 'as', 'models'],
    needed: ['provider'],
    help: 'print the models of a provider from a price list, as tables for the configuration',
  },
  'catalog diff': {
    words: ['PRICES'],
    flags: [],
    help: 'compare the configured prices and limits with a price list',
  },
  'secrets rotate': {
    words: [],
    flags: [],
    help: "re-encrypt callers' credentials with the first master key",
  },
  'endpoint add': {
    words: ['KIND:SLUG'],
    flags: ['account', 'base-url', 'api-key-file'],
    needed: ['account', 'base-url'],
    help: 'add an OpenAI-compatible endpoint to an account; its models are KIND:SLUG/MODEL',
  },
  'endpoint list': { words: [], flags: ['account'], help: "list accounts' endpoints and credentials" },
  'endpoint remove': {
    words: ['KIND:SLUG'],
    flags: ['account'],
    needed: ['account'],
    help: 'remove an endpoint from an account',
  },
} as const satisfies Readonly<Record<string, CommandRow>>;

export type CommandName = keyof typeof commands;
export const commandNames = Object.keys(commands) as CommandName[];
const isCommand = (name: string): name is CommandName => Object.hasOwn(commands, name);
export const commandRowOf = (name: CommandName): CommandRow => commands[name];

export type Command =
  | { readonly name: 'help' /** None: all of the program. */; readonly topics: readonly CommandName[] }
  | { readonly name: 'version' }
  | {
      readonly name: CommandName;
      readonly words: readonly string[];
      readonly flags: FlagValues;
      readonly switches: readonly SwitchName[];
      readonly json: boolean;
    };
export type RunCommand = Extract<Command, { words: readonly string[] }>;

/** Reads a command line. Throws `UsageError` with every fault. */
/** The commands of a group, such as `key`. */
const commandsOf = (group: string | undefined): CommandName[] =>
  commandNames.filter((name) => name.startsWith(`${group} `));

export function parseGatewayArgs(args: readonly string[]): Command {
  const faults: string[] = [];
  /** Words that may be the values of unknown flags. */
  const strayWords = new Set<number>();
  const words: string[] = [];
  const given = new Map<FlagName, string>();
  const switches = new Set<string>();
  const known = [...flagNames, ...Object.keys(switchHelp), 'json', 'help', 'version'];
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? '';
    if (arg === '--') {
      words.push(...args.slice(at + 1));
      break;
    }
    // A negative amount is not a flag.
    if (!/^-[^\d.]/.test(arg)) {
      words.push(arg);
      continue;
    }
    const [, long, inlineValue] = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? [];
    const name = long ?? { '-h': 'help', '-v': 'version' }[arg];
    if (name === undefined || !known.includes(name)) {
      if (inlineValue === undefined) strayWords.add(words.length);
      faults.push(
        `unknown flag ${arg.split('=')[0]}${didYouMean(long ?? arg, known, (near) => `--${near}`)}`,
      );
    } else if (!isFlag(name)) {
      if (inlineValue === undefined) switches.add(name);
      else faults.push(`--${name} takes no value, got '${inlineValue}'`);
    } else {
      const next = args[at + 1];
      // In `--account --json` the value is missing.
      const value = inlineValue ?? (next === undefined || /^--?[a-z]/.test(next) ? undefined : next);
      if (value === undefined) faults.push(`--${name} needs a value`);
      else if (given.has(name)) faults.push(`--${name} is given twice`);
      else given.set(name, value);
      if (inlineValue === undefined && value !== undefined) at++;
    }
  }
  // `help key create` works like `key create --help`.
  if (words[0] === 'help') {
    words.shift();
    switches.add('help');
  }
  const found = commandOf(words);
  if (switches.has('help')) return { name: 'help', topics: found ? [found.name] : commandsOf(words[0]) };
  if (switches.has('version')) return { name: 'version' };
  if (words.length === 0 && faults.length === 0 && given.size === 0) return { name: 'help', topics: [] };
  if (!found) throw new UsageError([...faults, unknownCommand(words)]);
  const { name, rest } = found;
  const ownSwitches = [...switches].filter(isSwitch);
  faults.push(
    ...positionalFaults(name, rest, (index) => strayWords.has(words.length - rest.length + index)),
    ...flagFaults(name, [...given.keys()]),
    ...ownSwitches
      .filter((one) => !commandRowOf(name).switches?.includes(one))
      .map((one) => `--${one} does not belong to the command ${name}`),
  );
  const values: Record<string, unknown> = {};
  for (const [flag, text] of given) {
    try {
      values[flag] = flags[flag].read(text);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      faults.push(`--${flag}: ${error.message}`);
    }
  }
  if (faults.length > 0) throw new UsageError(faults);
  return { name, words: rest, flags: values, switches: ownSwitches, json: switches.has('json') };
}

/** The command that a command line names, for the help that fits a wrong one. */
export const commandNamed = (args: readonly string[]): CommandName | undefined =>
  commandOf(args.filter((arg) => !arg.startsWith('-')))?.name;

function commandOf(words: readonly string[]): { name: CommandName; rest: readonly string[] } | undefined {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(' ');
    if (words.length >= length && isCommand(name)) return { name, rest: words.slice(length) };
  }
  return undefined;
}

function unknownCommand(words: readonly string[]): string {
  if (words.length === 0) return `there is no command; the commands are: ${commandNames.join(', ')}`;
  const [noun = ''] = words;
  const subcommands = commandNames.filter((name) => name.startsWith(`${noun} `));
  if (subcommands.length > 0 && words.length === 1)
    return `'${noun}' needs a subcommand: ${subcommands.join(', ')}`;
  const typed = words.slice(0, 2).join(' ');
  if (subcommands.length > 0) {
    const [, verb = ''] = words;
    const verbs = subcommands.map((name) => name.slice(noun.length + 1));
    const near = didYouMean(verb, verbs, (one) => `'${noun} ${one}'`);
    return `unknown command '${typed}'${near}; the commands are: ${subcommands.join(', ')}`;
  }
  // `check` for `catalog check`.
  const [sameVerb, ...others] = commandNames.filter((name) => name.endsWith(` ${words.slice(0, 2).at(-1)}`));
  const suggestion =
    didYouMean(typed, commandNames, (name) => `'${name}'`) ||
    didYouMean(noun, commandNames, (name) => `'${name}'`) ||
    (sameVerb !== undefined && others.length === 0 ? ` (did you mean '${sameVerb}'?)` : '');
  const nouns = new Set(commandNames.map((name) => name.split(' ')[0]));
  return `unknown command '${typed}'${suggestion || `; the commands are: ${[...nouns].join(', ')}`}`;
}

/** @param isStray whether a word may be the value of an unknown flag, which is a fault already */
function positionalFaults(
  name: CommandName,
  words: readonly string[],
  isStray: (index: number) => boolean,
): string[] {
  const { words: needed } = commandRowOf(name);
  const missing = needed.slice(words.length);
  if (missing.length > 0) return [`${name} needs ${missing.join(' and ')}`];
  const extra = words.flatMap((word, index) =>
    index < needed.length || isStray(index) ? [] : [`'${word}'`],
  );
  return extra.length > 0
    ? [`${name} takes ${needed.join(' ') || 'no arguments'}, got also ${extra.join(', ')}`]
    : [];
}

/** Where a command works that a running gateway was named for. */
const placeOf = (name: CommandName, flag: FlagName): string =>
  flag === 'admin-url' && /^(?:ledger|endpoint|secrets) /.test(name)
    ? ', which works on the database: name it with --database URL or --config FILE'
    : '';

function flagFaults(name: CommandName, given: readonly FlagName[]): string[] {
  const { flags: allowedFlags, needed = [], hasAdminApi } = commandRowOf(name);
  return [
    ...given
      .filter((flag) => ![...allowedFlags, ...commonFlags, ...(hasAdminApi ? adminFlags : [])].includes(flag))
      .map((flag) => `--${flag} does not belong to the command ${name}${placeOf(name, flag)}`),
    ...needed
      .filter((flag) => !given.includes(flag))
      .map((flag) => `${name} needs --${flag} ${flags[flag].value}`),
  ];
}
