import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { checkModel, openModelFile, readShardFiles } from '../../engine/index.ts';
import { noteDigest, stampsOf } from '../../pull/noted-digest.ts';
import { contentHash, type FileRecord, readRecord } from '../../pull/record.ts';
import { jsonText } from '../../terminal/printable.ts';
import { errorMessage } from '../../util/error-message.ts';
import { type ProgressBar, progressBar } from '../progress.ts';
import { StartError } from '../start-error.ts';
import type { World } from '../world.ts';
import { columns } from './columns.ts';
import { platformOf } from './open.ts';
import { homeOf } from './pulled.ts';

/** A model to verify. */
export interface Checked {
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
  models: readonly Checked[],
  { world, json, quiet }: { world: World; json: boolean; quiet: boolean },
): Promise<void> {
  const bar = progressBar(world.stderr, quiet);
  const verdicts: Verdict[] = [];
  for (const model of models) {
    verdicts.push(await verify(model, world, bar));
    bar.clear();
  }
  if (json) {
    const entries = verdicts.map(({ problems, digest, ...rest }) => ({
      ...rest,
      ok: problems.length === 0,
      problems,
      digest: digest ?? null,
    }));
    world.stdout.write(`${jsonText(entries)}\n`);
  } else if (verdicts.length === 0) world.stdout.write('no pulled models\n');
  else world.stdout.write(columns(['NAME', 'STATE', 'DIGEST', 'CHECKED'], verdicts.map(rowOf)));
  const bad = verdicts.filter(({ problems }) => problems.length > 0);
  if (bad.length === 0) return;
  throw new StartError(
    `${bad.length} of ${verdicts.length} models ${bad.length === 1 ? 'is' : 'are'} bad: ${bad.map(({ name }) => name).join(', ')}`,
  );
}

function rowOf({ name, problems, compared, files, digest = '-' }: Verdict): string[] {
  if (problems.length > 0) return [name, 'BAD', '-', problems.join('; ')];
  const checksums = compared === 0 ? 'no checksums known' : `checksums of ${compared} of ${files} files`;
  return [name, 'ok', digest, `${checksums}, all tensors complete and finite`];
}

async function verify(model: Checked, world: World, bar: ProgressBar): Promise<Verdict> {
  const { name, pulled } = model;
  const problems = (pulled?.unfinished ?? []).map(
    (file) => `the download of ${file} is incomplete; pull it again to resume`,
  );
  const facts = { name, files: pulled?.files.length ?? 1 };
  // An incomplete model is bad; the other files need not be read.
  if (problems.length > 0) return { ...facts, problems, compared: 0, digest: undefined };
  const note = pulled && (await noteFor(pulled, world));
  let compared = 0;
  for (const [file, known] of await checksumsOf(model)) {
    bar.show(`${name}: ${file}`, compared, facts.files);
    const wrong = await compare(file, known);
    if (wrong === undefined) compared += 1;
    else problems.push(wrong);
  }
  const digest = await checkTensors(model, { world, bar, problems });
  await note?.(problems.length === 0 ? digest : undefined);
  return { ...facts, problems, compared, digest };
}

interface Known {
  /** File name for messages. */
  readonly label: string;
  readonly sizeBytes: number;
  readonly kind: 'sha256' | 'git-sha1' | 'md5';
  readonly hex: string;
}

/** Expected sizes and checksums by file path. */
async function checksumsOf({ location, pulled }: Checked): Promise<Map<string, Known>> {
  const known = new Map<string, Known>();
  if (pulled) {
    const { home, paths } = homeOf(pulled.folder, pulled.files);
    const record = await readRecord(home);
    for (const path of paths) {
      const found: FileRecord | undefined = record?.files[path];
      if (found)
        known.set(join(home, ...path.split('/')), {
          label: path,
          sizeBytes: found.sizeBytes,
          ...found.checksum,
        });
    }
  }
  const isFolder = (await stat(location).catch(() => undefined))?.isDirectory();
  if (!isFolder) return known;
  const shards = await readShards(location);
  for (const { path, bytes, md5 } of shards) {
    const file = join(location, ...path.split('/'));
    if (md5 !== undefined && !known.has(file))
      known.set(file, { label: path, sizeBytes: bytes, kind: 'md5', hex: md5 });
  }
  return known;
}

/** Empty for a folder without an MLC shard list. Empty for a damaged list too: opening the model reports that. */
async function readShards(location: string) {
  try {
    return await readShardFiles(await platformOf({ env: {} }).modelFiles(location));
  } catch {
    return [];
  }
}

/** Compares a file with its expected size and checksum. @returns the problem, if there is one */
async function compare(path: string, { label, sizeBytes, kind, hex }: Known): Promise<string | undefined> {
  try {
    const { size } = await stat(path);
    if (size !== sizeBytes) return `${label} has ${size} bytes, expected ${sizeBytes}; pull the model again`;
    const hash = kind === 'md5' ? createHash('md5') : contentHash(kind, sizeBytes);
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
  { name, location }: Checked,
  { world, bar, problems }: { world: World; bar: ProgressBar; problems: string[] },
): Promise<string | undefined> {
  const platform = platformOf(world);
  try {
    const file = await openModelFile(await platform.modelFiles(location));
    try {
      const { digest, bad } = await checkModel(platform, file, (done, total) =>
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
async function noteFor({ folder, files }: NonNullable<Checked['pulled']>, world: World) {
  const { home, paths } = homeOf(folder, files);
  const stamps = await stampsOf(home, paths);
  return async (digest: string | undefined): Promise<void> => {
    try {
      await noteDigest(home, stamps, digest);
    } catch (error) {
      // A read-only folder can be verified, too.
      world.stderr.write(`lathe: cannot store the digest: ${errorMessage(error)}\n`);
    }
  };
}
