import { table } from '../config/help-table.ts';
import {
  commandNames,
  commandTable,
  type FlagName,
  flagNames,
  flagTable,
  sharedFlags,
} from './command-table.ts';

const flagRow = (name: FlagName) => {
  const row = flagTable[name];
  return [`--${name}${'value' in row ? ` ${row.value}` : ''}`, row.help] as const;
};

export function labHelpText(version: string): string {
  const commands = commandNames.map((name) => {
    const { words, help } = commandTable[name];
    return [`${name}${words === '' ? '' : ` ${words}`}`, help] as const;
  });
  const own = flagNames.filter((name) => !sharedFlags.includes(name));
  return [
    `lathe ${version}: the kernel lab, for authors of kernels`,
    '',
    'Usage: node dist/lab.js COMMAND [options]',
    '  It talks to a running host: node dist/host.js --gpu',
    '',
    'Commands:',
    ...table(commands, 80),
    '',
    'Options:',
    ...table(
      [
        ...sharedFlags.map(flagRow),
        ['-h, --help', 'print this and exit'],
        ['-v, --version', 'print the version and exit'],
      ],
      80,
    ),
    '',
    'Options of single commands:',
    ...table(
      own.map((name) => {
        const [flag, help] = flagRow(name);
        const takers = commandNames.filter((command) =>
          (commandTable[command].flags as readonly FlagName[]).includes(name),
        );
        return [flag, `${takers.join(', ')}: ${help}`] as const;
      }),
      80,
    ),
    '',
    'Exit codes:',
    ...table(
      [
        ['0', 'fine'],
        ['1', 'a kernel failed its gate, a config is not valid, or parity is lost'],
        ['2', 'wrong usage, or a file that cannot be read'],
        ['3', 'no host there, or it refused'],
      ],
      80,
    ),
    '',
  ].join('\n');
}
