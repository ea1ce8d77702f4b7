import type { KernelVersions } from '../../lab/types.ts';
import { printable } from '../../terminal/printable.ts';
import type { OutputStyle } from '../../terminal/style.ts';
import { verdictText } from '../bench-text.ts';
import { hunkLines } from '../config-diff.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { formatChange, pluralize } from '../figures.ts';
import { diffLines, hunksOf } from '../line-diff.ts';

type Version = KernelVersions['versions'][number];

/** Registrations and benches of a kernel, newest first, and what the last change of the source was. */
export const history: CommandHandler = async ({ client, words: [name = ''], print, look }) => {
  const { versions } = await client.versions(name);
  print({ versions }, () => [
    ...versions.flatMap((version) => versionLines(name, version, look)),
    ...lastChange(versions, look),
  ]);
  return exitCodes.fine;
};

function versionLines(
  name: string,
  { at, digest, accepted, registration, benches }: Version,
  { paint }: OutputStyle,
): string[] {
  const mark = accepted ? paint('good', '✓ accepted') : paint('bad', '✗ rejected');
  return [
    `${at}  ${mark}  ${printable(registration.op)}  ${paint('dim', digest.replace(/^sha256:/, '').slice(0, 12))}`,
    ...benches.map(
      ({ at: benchedAt, kernels, verdict, rounds, ratio_low: low, ratio_high: high }) =>
        `  bench ${benchedAt}  decode ${low === null ? '-' : formatChange(low - 1)} to ${high === null ? '-' : formatChange(high - 1)}  ` +
        `${printable(verdictText(verdict as 'faster'))}, ${pluralize(rounds, 'round')}${togetherText(kernels.filter((one) => one !== name))}`,
    ),
  ];
}

/** The figures of a bench are those of all kernels that it measured. */
const togetherText = (others: readonly string[]): string =>
  others.length === 0 ? '' : `, together with ${printable(others.join(', '))}`;

/** The difference to the newest version with another source. */
function lastChange(versions: readonly Version[], look: OutputStyle): string[] {
  const [newest, ...others] = versions;
  const before = others.find(({ registration }) => registration.source !== newest?.registration.source);
  if (!newest || !before) return [];
  const linesOf = ({ registration }: Version) => registration.source.split('\n');
  return [
    '',
    `since ${before.at}:`,
    ...hunksOf(diffLines(linesOf(before), linesOf(newest))).flatMap((hunk) => hunkLines(hunk, look)),
  ];
}
