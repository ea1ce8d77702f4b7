import { table } from '../config/help-table.ts';
import type { ToolTable } from './arguments.ts';

const width = 80;

/** Formats the help text of a tool: its commands, shared flags and flags of single commands. */
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
        ['-h, --help', 'print this help and exit'],
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
