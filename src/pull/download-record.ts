/**
 * The download record `.lathe.json` in a repository's folder: checksums of the pulled files for later verification,
 * digests of verified models, and defaults of created models.
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
  /** Requested revision: a branch, tag or commit. */
  revision: z.string(),
});

/** Digest of a verified model with the stamp of a file. It is valid while the file is unchanged. */
const storedDigest = z.object({ digest: z.string(), sizeBytes: z.number(), modifiedMs: z.number() });

const modelDefaults = z.object({
  system: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
});

const pullRecord = z.object({
  /** `owner/name`; absent if nothing was pulled. */
  repository: z.string().optional(),
  /** Pulled files by path relative to the folder, with slashes. */
  files: z.record(z.string(), fileRecord),
  /** Digests of verified models, by each of their files. */
  digests: z.record(z.string(), storedDigest).optional(),
  /** Request defaults of created models, by their first file. */
  defaults: z.record(z.string(), modelDefaults).optional(),
});

export type FileRecord = Readonly<z.infer<typeof fileRecord>>;
export type PullRecord = Readonly<z.infer<typeof pullRecord>>;

const recordName = '.lathe.json';

/** Reads the record. Undefined if it is absent or unreadable. */
export const readRecord = async (folder: string): Promise<PullRecord | undefined> => {
  try {
    return pullRecord.parse(JSON.parse(await readFile(join(folder, recordName), 'utf8')));
  } catch {
    return undefined;
  }
};

/**
 * Changes the record. An empty record is deleted.
 * @throws PullError `not_writable` or `disk_full`
 */
export const updateRecord = async (
  folder: string,
  change: (known: PullRecord) => PullRecord,
): Promise<void> => {
  const target = join(folder, recordName);
  const record = change((await readRecord(folder)) ?? { files: {} });
  // A unique name, because two processes may write at once.
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

/** Records a file that is complete and verified. */
export const recordFile = (
  folder: string,
  { repo, revision = 'main' }: Reference,
  { path, sizeBytes, checksum }: RemoteFile,
): Promise<void> =>
  updateRecord(folder, (known) => ({
    ...known,
    repository: repo,
    files: { ...known.files, [path]: { sizeBytes, checksum, revision } },
    // The digest of other content is no longer valid.
    digests:
      known.files[path]?.checksum.hex === checksum.hex ? known.digests : omitPaths(known.digests, [path]),
  }));

/** Removes deleted files from the record. The record is deleted with the last of them. */
export const removeFromRecord = (folder: string, paths: readonly string[]): Promise<void> =>
  updateRecord(folder, (known) => ({
    ...known,
    files: omitPaths(known.files, paths) ?? {},
    digests: omitPaths(known.digests, paths),
    defaults: omitPaths(known.defaults, paths),
  }));

const omitPaths = <Value>(
  entries: Readonly<Record<string, Value>> | undefined,
  paths: readonly string[],
): Record<string, Value> | undefined =>
  entries && Object.fromEntries(Object.entries(entries).filter(([path]) => !paths.includes(path)));

/** Creates the hash that the hub computes over a file's content. */
export const createContentHash = (kind: Checksum['kind'], sizeBytes: number): Hash =>
  kind === 'sha256' ? createHash('sha256') : createHash('sha1').update(`blob ${sizeBytes}\0`);
