/**
 * What is known of models on disk: `.lathe.json` in the folder of a repository, for checking them again later, and for
 * telling the digest of one that was read through.
 */
import { createHash, type Hash, randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Checksum, RemoteFile } from './choose.ts';
import { explainWriteFailure } from './errors.ts';
import type { Reference } from './reference.ts';

const fileRecord = z.object({
  sizeBytes: z.number(),
  checksum: z.object({ kind: z.enum(['sha256', 'git-sha1']), hex: z.string() }),
  /** As it was asked for: a branch, tag or commit. */
  revision: z.string(),
});

/** What a model was found to be, as long as the file is what it was then. */
const notedDigest = z.object({ digest: z.string(), sizeBytes: z.number(), modifiedMs: z.number() });

const modelDefaults = z.object({
  system: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
});

const pullRecord = z.object({
  /** `owner/name`; absent where nothing was pulled. */
  repository: z.string().optional(),
  /** Files that were pulled, by path below the folder, with slashes. */
  files: z.record(z.string(), fileRecord),
  /** Of models that were read through and found whole, by each of their files. */
  digests: z.record(z.string(), notedDigest).optional(),
  /** Defaults of requests to a model that was created with some, by its first file. */
  defaults: z.record(z.string(), modelDefaults).optional(),
});

export type FileRecord = Readonly<z.infer<typeof fileRecord>>;
export type PullRecord = Readonly<z.infer<typeof pullRecord>>;

const recordName = '.lathe.json';

/** Undefined where nothing was recorded, or nothing that can be read. */
export const readRecord = async (folder: string): Promise<PullRecord | undefined> => {
  try {
    return pullRecord.parse(JSON.parse(await readFile(join(folder, recordName), 'utf8')));
  } catch {
    return undefined;
  }
};

/**
 * Changes what is known; where nothing is left to know, there is no file.
 * @throws PullError `not_writable` or `disk_full`
 */
export const changeRecord = async (
  folder: string,
  change: (known: PullRecord) => PullRecord,
): Promise<void> => {
  const target = join(folder, recordName);
  const record = change((await readRecord(folder)) ?? { files: {} });
  // Its own for each writer: two may be at it.
  const partial = `${target}.${randomUUID()}.new`;
  try {
    const { files, digests = {}, defaults = {} } = record;
    if ([files, digests, defaults].every(isEmpty)) return await rm(target, { force: true });
    await writeFile(partial, `${JSON.stringify(record, undefined, 2)}\n`);
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw explainWriteFailure(target, error);
  }
};

const isEmpty = (entries: object): boolean => Object.keys(entries).length === 0;

/** Notes a file that is there, whole and right. */
export const recordFile = (
  folder: string,
  { repo, revision = 'main' }: Reference,
  { path, sizeBytes, checksum }: RemoteFile,
): Promise<void> =>
  changeRecord(folder, (known) => ({
    ...known,
    repository: repo,
    files: { ...known.files, [path]: { sizeBytes, checksum, revision } },
    // Another content is another model.
    digests:
      known.files[path]?.checksum.hex === checksum.hex ? known.digests : without(known.digests, [path]),
  }));

/** Forgets files that were removed; the record goes with the last of them. */
export const forgetFiles = (folder: string, paths: readonly string[]): Promise<void> =>
  changeRecord(folder, (known) => ({
    ...known,
    files: without(known.files, paths) ?? {},
    digests: without(known.digests, paths),
    defaults: without(known.defaults, paths),
  }));

const without = <Value>(
  entries: Readonly<Record<string, Value>> | undefined,
  paths: readonly string[],
): Record<string, Value> | undefined =>
  entries && Object.fromEntries(Object.entries(entries).filter(([path]) => !paths.includes(path)));

/** Of a file's content, as the hub takes it. */
export const contentHash = (kind: Checksum['kind'], sizeBytes: number): Hash =>
  kind === 'sha256' ? createHash('sha256') : createHash('sha1').update(`blob ${sizeBytes}\0`);
