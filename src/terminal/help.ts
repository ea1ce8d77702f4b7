import { formatTable } from '../config/help-table.ts';
import type { ToolTable } from './arguments.ts';

const width = 80;

/** Formats the help text of a tool: its commands, shared flags and flags of single commands. */
export function toolHelp(
  { flags, commands, shared }: ToolTable,
  {
    header,
    exitCodes,
  }: { readonly header: readonly string[]; readonly exitCodes: readonly [string, string][] },
): string {
  const flagRow = (name: string): readonly [string, string] => {
    const { value, help = '' } = flags[name] ?? {};
    return [`--${name}${value === undefined ? '' : ` ${value}`}`, help];
  };
  const commandFlags = Object.keys(flags).filter((name) => !shared.includes(name));
  return [
    ...header,
    '',
    'Commands:',
    ...formatTable(
      Object.entries(commands).map(([name, { placeholders, help }]) => [
        `${name}${placeholders === '' ? '' : ` ${placeholders}`}`,
        help,
      ]),
      width,
    ),
    '',
    'Options:',
    ...formatTable(
      [
        ...shared.map(flagRow),
        ['-h, --help', 'print this help and exit'],
        ['-v, --version', 'print the version and exit'],
      ],
      width,
    ),
    '',
    'Options of single commands:',
    ...formatTable(
      commandFlags.map((name) => {
        const [flag, help] = flagRow(name);
        const commandsWithFlag = Object.entries(commands).flatMap(([command, row]) =>
          row.flags.includes(name) ? [command] : [],
        );
        return [flag, `${commandsWithFlag.join(', ')}: ${help}`];
      }),
      width,
    ),
    '',
    'Exit codes:',
    ...formatTable(exitCodes, width),
    '',
  ].join('\n');
}
