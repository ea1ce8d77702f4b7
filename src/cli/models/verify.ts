import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { verifyModel, openModelFile, readShardFiles } from '../../engine/index.ts';
import { storeDigest, readStamps } from '../../pull/stored-digest.ts';
import { createContentHash, type FileRecord, readRecord } from '../../pull/download-record.ts';
import { formatJson } from '../../terminal/printable.ts';
import { errorMessage } from '../../util/error-message.ts';
import { type ProgressBar, progressBar } from '../progress.ts';
import { StartError } from '../start-error.ts';
import type { CliContext } from '../cli-context.ts';
import { formatTable } from './format-table.ts';
import { createPlatform } from './inspect.ts';
import { locateInRepository } from './pulled-models.ts';

/** A model to verify. */
export interface VerifyTarget {
  readonly name: string;
  readonly location: string;
  /** For a pulled model: the models folder, and the model's files relative to it. */
  readonly pulled?: {
    readonly folder: string;
    readonly files: readonly string[];
    readonly unfinished: readonly string[];
  };
}

interface Verdict {
  readonly name: string;
  readonly problems: readonly string[];
  /** Number of files whose checksum matched. */
  readonly compared: number;
  readonly files: number;
  readonly digest: string | undefined;
}

/**
 * Reads the models completely: compares each file with its checksum (from the hub, or from the MLC shard list) and
 * checks that every tensor is present and finite. Exit code 1 if a model is bad.
 */
export async function verifyModels(
  models: readonly VerifyTarget[],
  { cli, json, quiet }: { cli: CliContext; json: boolean; quiet: boolean },
): Promise<void> {
  const bar = progressBar(cli.stderr, quiet);
  const verdicts: Verdict[] = [];
  for (const model of models) {
    verdicts.push(await verify(model, cli, bar));
    bar.clear();
  }
  if (json) {
    const entries = verdicts.map(({ problems, digest, ...rest }) => ({
      ...rest,
      ok: problems.length === 0,
      problems,
      digest: digest ?? null,
    }));
    cli.stdout.write(`${formatJson(entries)}\n`);
  } else if (verdicts.length === 0) cli.stdout.write('no pulled models\n');
  else cli.stdout.write(formatTable(['NAME', 'STATE', 'DIGEST', 'CHECKED'], verdicts.map(rowOf)));
  const failed = verdicts.filter(({ problems }) => problems.length > 0);
  if (failed.length === 0) return;
  throw new StartError(
    `${failed.length} of ${verdicts.length} models ${failed.length === 1 ? 'is' : 'are'} bad: ${failed.map(({ name }) => name).join(', ')}`,
  );
}

function rowOf({ name, problems, compared, files, digest = '-' }: Verdict): string[] {
  if (problems.length > 0) return [name, 'BAD', '-', problems.join('; ')];
  const checksums = compared === 0 ? 'no checksums known' : `checksums of ${compared} of ${files} files`;
  return [name, 'ok', digest, `${checksums}, all tensors complete and finite`];
}

async function verify(model: VerifyTarget, cli: CliContext, bar: ProgressBar): Promise<Verdict> {
  const { name, pulled } = model;
  const problems = (pulled?.unfinished ?? []).map(
    (file) => `the download of ${file} is incomplete; pull it again to resume`,
  );
  const facts = { name, files: pulled?.files.length ?? 1 };
  // An incomplete model is bad; the other files need not be read.
  if (problems.length > 0) return { ...facts, problems, compared: 0, digest: undefined };
  const writeDigest = pulled && (await prepareDigestNote(pulled, cli));
  let compared = 0;
  for (const [file, known] of await expectedChecksums(model)) {
    bar.show(`${name}: ${file}`, compared, facts.files);
    const problem = await findChecksumProblem(file, known);
    if (problem === undefined) compared += 1;
    else problems.push(problem);
  }
  const digest = await checkTensors(model, { cli, bar, problems });
  await writeDigest?.(problems.length === 0 ? digest : undefined);
  return { ...facts, problems, compared, digest };
}

interface ExpectedChecksum {
  /** File name for messages. */
  readonly label: string;
  readonly sizeBytes: number;
  readonly kind: 'sha256' | 'git-sha1' | 'md5';
  readonly hex: string;
}

/** Expected sizes and checksums by file path. */
async function expectedChecksums({ location, pulled }: VerifyTarget): Promise<Map<string, ExpectedChecksum>> {
  const expected = new Map<string, ExpectedChecksum>();
  if (pulled) {
    const { repositoryFolder, paths } = locateInRepository(pulled.folder, pulled.files);
    const record = await readRecord(repositoryFolder);
    for (const path of paths) {
      const found: FileRecord | undefined = record?.files[path];
      if (found)
        expected.set(join(repositoryFolder, ...path.split('/')), {
          label: path,
          sizeBytes: found.sizeBytes,
          ...found.checksum,
        });
    }
  }
  const isFolder = (await stat(location).catch(() => undefined))?.isDirectory();
  if (!isFolder) return expected;
  const shards = await readShards(location);
  for (const { path, sizeBytes: bytes, md5 } of shards) {
    const file = join(location, ...path.split('/'));
    if (md5 !== undefined && !expected.has(file))
      expected.set(file, { label: path, sizeBytes: bytes, kind: 'md5', hex: md5 });
  }
  return expected;
}

/** Empty for a folder without an MLC shard list. Empty for a damaged list too: opening the model reports that. */
async function readShards(location: string) {
  try {
    return await readShardFiles(await createPlatform({ env: {} }).modelFiles(location));
  } catch {
    return [];
  }
}

/** Compares a file with its expected size and checksum. @returns the problem, if there is one */
async function findChecksumProblem(
  path: string,
  { label, sizeBytes, kind, hex }: ExpectedChecksum,
): Promise<string | undefined> {
  try {
    const { size } = await stat(path);
    if (size !== sizeBytes) return `${label} has ${size} bytes, expected ${sizeBytes}; pull the model again`;
    const hash = kind === 'md5' ? createHash('md5') : createContentHash(kind, sizeBytes);
    for await (const bytes of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(bytes);
    const found = hash.digest('hex');
    if (found === hex) return undefined;
    return `${label} does not match its ${kind} (expected ${hex}, got ${found}); pull the model again`;
  } catch (error) {
    return `cannot read ${label}: ${errorMessage(error)}`;
  }
}

/** Opens the model and reads every tensor. @returns its digest */
async function checkTensors(
  { name, location }: VerifyTarget,
  { cli, bar, problems }: { cli: CliContext; bar: ProgressBar; problems: string[] },
): Promise<string | undefined> {
  const platform = createPlatform(cli);
  try {
    const file = await openModelFile(await platform.modelFiles(location));
    try {
      const { digest, bad } = await verifyModel(platform, file, (done, total) =>
        bar.show(`${name}: tensors`, done, total),
      );
      for (const { name: tensor, row } of bad)
        problems.push(`tensor '${tensor}' has a value that is not finite (row ${row}); pull the model again`);
      return bad.length === 0 ? digest : undefined;
    } finally {
      await file.close();
    }
  } catch (error) {
    problems.push(errorMessage(error));
    return undefined;
  }
}

/**
 * Returns a function that stores a model's digest for `models show`. The stamps of the files are taken now, before they
 * are read, so that a digest is never stored for files that changed meanwhile.
 */
async function prepareDigestNote({ folder, files }: NonNullable<VerifyTarget['pulled']>, cli: CliContext) {
  const { repositoryFolder, paths } = locateInRepository(folder, files);
  const stamps = await readStamps(repositoryFolder, paths);
  return async (digest: string | undefined): Promise<void> => {
    try {
      await storeDigest(repositoryFolder, stamps, digest);
    } catch (error) {
      // A read-only folder can be verified, too.
      cli.stderr.write(`lathe: cannot store the digest: ${errorMessage(error)}\n`);
    }
  };
}
