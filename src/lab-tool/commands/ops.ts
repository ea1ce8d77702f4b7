import { constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { systemCode } from '../../util/system-code.ts';
import { didYouMean } from '../../words/nearest.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { HostError } from '../../host-client/errors.ts';
import { FileError, toFileError } from '../../terminal/file-error.ts';
import { opsLines } from '../graph-text.ts';

export const ops: CommandHandler = async ({ client, print, look }) => {
  const list = await client.ops();
  print({ ops: list }, () => opsLines(list, look));
  return exitCodes.fine;
};

export const stub: CommandHandler = async ({ client, words: [op = ''], flags, print }) => {
  const { target, format, for: component, out, force } = flags;
  let answer: Awaited<ReturnType<typeof client.stub>>;
  try {
    answer = await client.stub(op, { target, format, component });
  } catch (error) {
    if (!(error instanceof HostError) || error.code !== 'unknown_op') throw error;
    const known = (await client.ops()).map((each) => each.op);
    const suggestion = didYouMean(op, known, (name) => `'${name}'`);
    throw new HostError(
      error.code,
      `op: expected one of ${known.join(', ')}, got '${op}'${suggestion}`,
      error.status,
    );
  }
  const ended = answer.source.endsWith('\n') ? answer.source : `${answer.source}\n`;
  // Without it, the gate would use the format of the model.
  const text =
    format === undefined ? ended : ended.replace(/^\/\/! dispatch: .*\n/m, `$&//! dtypes: ${format}\n`);
  if (out === undefined) {
    print(answer, () => [text.replace(/\n$/, '')]);
    return exitCodes.fine;
  }
  const { O_WRONLY, O_CREAT, O_TRUNC, O_EXCL } = constants;
  try {
    await writeFile(out, text, { flag: O_WRONLY | O_CREAT | (force === true ? O_TRUNC : O_EXCL) });
  } catch (error) {
    if (systemCode(error) === 'EEXIST')
      throw new FileError(out, 'it already exists; use --force to overwrite it');
    throw toFileError(out, error);
  }
  print({ ...answer, out }, () => [
    `wrote ${out}: ${answer.op}, ${answer.target}${answer.format === undefined ? '' : `, ${answer.format}`}`,
  ]);
  return exitCodes.fine;
};
