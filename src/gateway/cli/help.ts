import { table } from '../../config/help-table.ts';
import { type CommandName, commandNames, rowOf } from './commands.ts';
import { commonFlags, type FlagName, flags } from './flags.ts';

const program = 'node dist/gateway.js';

const flagRow = (name: FlagName): readonly [string, string] => [
  `--${name} ${flags[name].value}`,
  flags[name].help,
];

const ofEvery: readonly (readonly [string, string])[] = [
  ...commonFlags.map(flagRow),
  ['--json', 'print the result as JSON'],
  ['-h, --help', 'print this help, or that of a command, and exit'],
  ['-v, --version', 'print the version and exit'],
];

export function gatewayHelp(version: string, about: CommandName | undefined): string {
  return [...(about === undefined ? overview(version) : ofCommand(about)), ''].join('\n');
}

const overview = (version: string): string[] => [
  `lathe gateway ${version}: one API key for many providers, with a receipt for every request`,
  '',
  `Usage: ${program} COMMAND [options]`,
  '',
  'Commands:',
  ...table(commandNames.map((name) => [[name, ...rowOf(name).words].join(' '), rowOf(name).help])),
  '',
  'Options of every command:',
  ...table(ofEvery),
  '',
  'Environment:',
  ...table([
    ['LATHE_DATABASE', 'the database, if neither --database nor the configuration names one'],
    ['LATHE_DATA_DIR', 'the folder of the default database'],
  ]),
  '',
  'Documentation: docs/gateway.md. Example configuration: gateway.example.toml.',
];

function ofCommand(name: CommandName): string[] {
  const { words, flags: own, needed = [], help } = rowOf(name);
  const usage = [name, ...words, ...needed.map((flag) => `--${flag} ${flags[flag].value}`)];
  return [
    `${program} ${usage.join(' ')} [options]: ${help}`,
    '',
    'Options:',
    ...table([...own.map(flagRow), ...ofEvery]),
  ];
}
