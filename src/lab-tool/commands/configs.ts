import { UsageError } from '../../config/options.ts';
import type { BenchResult, ConfigEnvelope } from '../../lab/types.ts';
import { benchDiffLines, diffBenches } from '../bench-diff.ts';
import { configDiffLines, diffConfigs } from '../config-diff.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { findingLines } from '../findings-text.ts';
import { readSaved } from '../read-saved.ts';
import { printable } from '../../terminal/printable.ts';

export const configs: CommandHandler = async ({ client, print }) => {
  const names = await client.configs();
  print(names, () => (names.length === 0 ? ['no config is saved'] : names.map(printable)));
  return exitCodes.fine;
};

export const save: CommandHandler = async ({ client, words: [name = ''], print }) => {
  const answer = await client.saveConfig(name);
  print(answer, () => [`saved as ${printable(answer.name)}`]);
  return exitCodes.fine;
};

/** Sends the contents of the file instead of its path, because the host may be on another machine. */
export const validate: CommandHandler = async ({ client, words: [word = ''], print, look }) => {
  const report = await client.validate(await readSaved(client, word));
  const { paint } = look;
  print(report, () => [
    `${report.ok ? paint('good', '✓') : paint('bad', '✗')} ${paint('strong', printable(word))}  ${report.ok ? paint('good', 'valid') : paint('bad', 'not valid')}`,
    `  ${report.stages
      .map(({ stage, ok, skipped }) => {
        if (skipped === true) return paint('dim', `· ${stage} (skipped)`);
        return `${ok ? paint('good', '✓') : paint('bad', '✗')} ${stage}`;
      })
      .join('  ')}`,
    ...report.stages.flatMap(({ stage, findings }) =>
      findings.flatMap((finding) => findingLines({ ...finding, file: `${word} ${stage}` }, undefined, look)),
    ),
  ]);
  return report.ok ? exitCodes.fine : exitCodes.failed;
};

const hasMembers = (value: unknown, ...members: readonly string[]): boolean =>
  value instanceof Object && members.every((member) => member in value);
const isConfig = (value: unknown): value is ConfigEnvelope =>
  hasMembers(value, 'bindings', 'kernels', 'signature', 'fingerprint');
const isBench = (value: unknown): value is BenchResult =>
  hasMembers(value, 'baseline', 'bound', 'verdict', 'components', 'fingerprint');

export const diff: CommandHandler = async ({ client, words: [a = '', b = ''], print, look }) => {
  const [before, after] = [await readSaved(client, a), await readSaved(client, b)];
  if (isConfig(before) && isConfig(after)) {
    const difference = diffConfigs(before, after);
    print(difference, () => configDiffLines(difference, look));
  } else if (isBench(before) && isBench(after)) {
    const difference = diffBenches(before, after);
    print(difference, () => benchDiffLines(difference, [a, b], look));
  } else {
    const kind = (value: unknown) => (isConfig(value) ? 'a config' : isBench(value) ? 'a bench' : 'neither');
    throw new UsageError([
      `diff needs two configs or two results of bench --json; ${a} is ${kind(before)}, ${b} is ${kind(after)}`,
    ]);
  }
  return exitCodes.fine;
};
