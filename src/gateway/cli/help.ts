import { formatTable } from '../../config/help-table.ts';
import { adminTokenVariable } from '../operator/admin-tokens.ts';
import { adminUrlVariable } from './admin-address.ts';
import { type CommandName, commandNames, commandRowOf, switchHelp } from './commands.ts';
import { adminFlags, commonFlags, type FlagName, flags } from './flags.ts';
import { commandOf } from '../../terminal/program.ts';

const program = commandOf('gateway');

const toHelpRow = (name: FlagName): readonly [string, string] => [
  `--${name} ${flags[name].value}`,
  flags[name].help,
];

const commonRows: readonly (readonly [string, string])[] = [
  ...commonFlags.map(toHelpRow),
  ['--json', 'print the result as JSON'],
  ['-h, --help', 'print this help, or that of a command, and exit'],
  ['-v, --version', 'print the version and exit'],
];

/** @param topics the commands to describe; none: the program */
export function gatewayHelp(version: string, topics: readonly CommandName[]): string {
  const [first, ...others] = topics;
  const lines =
    first === undefined
      ? overviewHelp(version)
      : others.length === 0
        ? commandHelp(first)
        : [...commandTable(topics), '', `Options of one: ${program} ${first} --help`];
  return [...lines, ''].join('\n');
}

const commandTable = (names: readonly CommandName[]): string[] => [
  `Usage: ${program} COMMAND [options]`,
  '',
  'Commands:',
  ...formatTable(
    names.map((name) => [[name, ...commandRowOf(name).words].join(' '), commandRowOf(name).help]),
  ),
];

const overviewHelp = (version: string): string[] => [
  `lathe gateway ${version}: one API key for many providers, with a receipt for every request`,
  '',
  ...commandTable(commandNames),
  '',
  'Options of every command:',
  ...formatTable(commonRows),
  '',
  'Environment:',
  ...formatTable([
    ['LATHE_DATABASE', 'the database, if neither --database nor the configuration names one'],
    ['LATHE_DATA_DIR', 'the folder of the default database'],
    [adminUrlVariable, 'the running gateway to work on, if neither --database nor --config is given'],
    [adminTokenVariable, "the operator's token for it, or of `serve`"],
  ]),
  '',
  'Documentation: docs/gateway.md. Example configuration: gateway.example.toml.',
];

function commandHelp(name: CommandName): string[] {
  const { words, flags: ownFlags, needed = [], switches = [], hasAdminApi, help } = commandRowOf(name);
  const usage = [name, ...words, ...needed.map((flag) => `--${flag} ${flags[flag].value}`)];
  return [
    `${program} ${usage.join(' ')} [options]: ${help}`,
    '',
    'Options:',
    ...formatTable([
      ...ownFlags.map(toHelpRow),
      ...(hasAdminApi ? adminFlags : []).map(toHelpRow),
      ...switches.map((one) => [`--${one}`, switchHelp[one]] as const),
      ...commonRows,
    ]),
  ];
}
