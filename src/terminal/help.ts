import { table } from '../config/help-table.ts';
import type { ToolTable } from './arguments.ts';

const width = 80;

/** The help text of a tool: its commands, and the flags of all and of each. */
export function toolHelp(
  { flags, commands, shared }: ToolTable,
  { head, exitCodes }: { readonly head: readonly string[]; readonly exitCodes: readonly [string, string][] },
): string {
  const flagRow = (name: string): readonly [string, string] => {
    const { value, help = '' } = flags[name] ?? {};
    return [`--${name}${value === undefined ? '' : ` ${value}`}`, help];
  };
  const own = Object.keys(flags).filter((name) => !shared.includes(name));
  return [
    ...head,
    '',
    'Commands:',
    ...table(
      Object.entries(commands).map(([name, { words, help }]) => [
        `${name}${words === '' ? '' : ` ${words}`}`,
        help,
      ]),
      width,
    ),
    '',
    'Options:',
    ...table(
      [
        ...shared.map(flagRow),
        ['-h, --help', 'print this and exit'],
        ['-v, --version', 'print the version and exit'],
      ],
      width,
    ),
    '',
    'Options of single commands:',
    ...table(
      own.map((name) => {
        const [flag, help] = flagRow(name);
        const takers = Object.entries(commands).flatMap(([command, row]) =>
          row.flags.includes(name) ? [command] : [],
        );
        return [flag, `${takers.join(', ')}: ${help}`];
      }),
      width,
    ),
    '',
    'Exit codes:',
    ...table(exitCodes, width),
    '',
  ].join('\n');
}
