import { writeFile } from 'node:fs/promises';
import { UsageError } from '../../config/options.ts';
import { canonicalJson } from '../../signing/canonical-json.ts';
import { FileError, toFileError } from '../../terminal/file-error.ts';
import { printable } from '../../terminal/printable.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { readText } from '../local-kernels.ts';
import { verifyLines, verifyConfig } from '../verify-config.ts';

/** Writes a saved config as the host signed it. */
export const exportConfig: CommandHandler = async ({
  client,
  words: [name = ''],
  flags: { out, force },
  print,
}) => {
  const config = await client.config(name);
  const text = canonicalJson(config);
  if (out === undefined) {
    print(config, () => [text]);
    return exitCodes.fine;
  }
  try {
    await writeFile(out, text, { flag: force === true ? 'w' : 'wx' });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST')
      throw new FileError(out, 'it already exists; use --force to overwrite it');
    throw toFileError(out, error);
  }
  print({ name, out }, () => [`wrote ${out}`]);
  return exitCodes.fine;
};

export const importConfig: CommandHandler = async ({
  client,
  words: [file = ''],
  flags: { name, force },
  print,
}) => {
  const answer = await client.importConfig({
    envelope: parse(await readText(file, file), file),
    ...(name === undefined ? {} : { name }),
    ...(force === true ? { replace: true } : {}),
  });
  const problems = answer.report.stages.flatMap(({ findings }) =>
    findings.filter(({ severity }) => severity === 'error').map(({ message }) => message),
  );
  print(answer, () => [
    `saved as ${printable(answer.name)}`,
    ...problems.map((problem) => `  it cannot be bound here: ${printable(problem)}`),
  ]);
  return exitCodes.fine;
};

/** Needs no host: it checks the signature, the digests, the reports and the figures of a config. */
export const verify: CommandHandler = async ({ words: [file = ''], print, look }) => {
  const text = await readText(file, file);
  const verified = await verifyConfig(parse(text, file), text);
  print(verified, () => verifyLines(verified, file, look));
  return verified.ok ? exitCodes.fine : exitCodes.failed;
};

function parse(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError([`${file}: it is not JSON`]);
  }
}
