import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { UsageError } from '../../config/options.ts';
import { canonicalJson } from '../../signing/canonical-json.ts';
import { FileError, toFileError } from '../../terminal/file-error.ts';
import { printable } from '../../terminal/printable.ts';
import { exitCodes, type CommandHandler } from '../context.ts';
import { readText } from '../local-kernels.ts';
import { changedFiles, configFile, publishedFiles } from '../published-folder.ts';
import { readSaved } from '../read-saved.ts';
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

/** Needs no host: it checks the signature, the digests, the reports and the figures of a config, and the files of a published one. */
export const verify: CommandHandler = async ({ words: [word = ''], print, look }) => {
  const isFolder = await stat(word).then(
    (found) => found.isDirectory(),
    () => false,
  );
  const file = isFolder ? join(word, configFile) : word;
  const text = await readText(file, file);
  const verified = await verifyConfig(parse(text, file), text);
  const changed =
    isFolder && verified.config
      ? await changedFiles(verified.config, text, (path) => readFile(join(word, path), 'utf8'))
      : [];
  const result = {
    ...verified,
    ok: verified.ok && changed.length === 0,
    findings: [...verified.findings, ...changed],
  };
  print(result, () => verifyLines(result, word, look));
  return result.ok ? exitCodes.fine : exitCodes.failed;
};

/** Writes a config whose signature and figures are valid as a folder. Existing files are kept: a folder is published once. */
export const publish: CommandHandler = async ({
  client,
  words: [word = ''],
  flags: { out },
  print,
  look,
}) => {
  const value = await readSaved(client, word);
  const text = canonicalJson(value);
  const verified = await verifyConfig(value, text);
  const { config } = verified;
  if (!verified.ok || !config) {
    print(verified, () => verifyLines(verified, word, look));
    return exitCodes.failed;
  }
  const folder = out ?? config.name;
  if (await stat(folder).catch(() => undefined))
    throw new FileError(folder, 'it already exists; name another folder with --out');
  const files = publishedFiles(config, text);
  for (const [path, content] of files) {
    const target = join(folder, path);
    try {
      await mkdir(dirname(target), { recursive: true });
      await writeFile(target, content, { flag: 'wx' });
    } catch (error) {
      throw toFileError(target, error);
    }
  }
  print({ name: config.name, out: folder, files: [...files.keys()] }, () => [
    `wrote ${printable(folder)}: ${[...files.keys()].join(', ')}`,
  ]);
  return exitCodes.fine;
};

function parse(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError([`${file}: it is not JSON`]);
  }
}
