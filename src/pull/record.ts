/** What is known of pulled files: `.lathe.json` in the folder of a repository, for checking them again later. */
import { createHash, type Hash } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Checksum, RemoteFile } from './choose.ts';
import { explainWriteFailure } from './errors.ts';
import type { Reference } from './reference.ts';

export interface FileRecord {
  readonly sizeBytes: number;
  readonly checksum: Checksum;
  /** As it was asked for: a branch, tag or commit. */
  readonly revision: string;
}

export interface PullRecord {
  /** `owner/name`. */
  readonly repository: string;
  /** By path below the folder, with slashes. */
  readonly files: Readonly<Record<string, FileRecord>>;
  /** Of models that were read through and found whole, by each of their files. */
  readonly digests?: Readonly<Record<string, string>>;
}

const recordName = '.lathe.json';

/** Undefined where nothing was recorded, or nothing that can be read. */
export const readRecord = async (folder: string): Promise<PullRecord | undefined> => {
  let found: unknown;
  try {
    found = JSON.parse(await readFile(join(folder, recordName), 'utf8'));
  } catch {
    return undefined;
  }
  return isRecord(found) ? found : undefined;
};

const isRecord = (value: unknown): value is PullRecord =>
  isObject(value) &&
  typeof value['repository'] === 'string' &&
  isObject(value['files']) &&
  (value['digests'] === undefined || isObject(value['digests'])) &&
  Object.values(value['files']).every(
    (file) =>
      isObject(file) &&
      typeof file['sizeBytes'] === 'number' &&
      isObject(file['checksum']) &&
      (file['checksum']['kind'] === 'sha256' || file['checksum']['kind'] === 'git-sha1') &&
      typeof file['checksum']['hex'] === 'string',
  );

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Notes a file that is there, whole and right. */
export const recordFile = async (
  folder: string,
  { repo, revision = 'main' }: Reference,
  { path, sizeBytes, checksum }: RemoteFile,
): Promise<void> => {
  const known = await readRecord(folder);
  const before = known?.files[path]?.checksum.hex;
  const files = { ...known?.files, [path]: { sizeBytes, checksum, revision } };
  // Another content is another model.
  const digests = before === checksum.hex ? known?.digests : without(known?.digests, [path]);
  await write(folder, { repository: repo, files, ...(digests ? { digests } : {}) });
};

/** Notes the digest of a model, at each of its files. */
export const recordDigest = async (
  folder: string,
  paths: readonly string[],
  digest: string,
): Promise<void> => {
  const known = await readRecord(folder);
  if (!known) return;
  const digests = { ...known.digests, ...Object.fromEntries(paths.map((path) => [path, digest])) };
  await write(folder, { ...known, digests });
};

/** Forgets files that were removed; the record goes with the last of them. */
export const forgetFiles = async (folder: string, paths: readonly string[]): Promise<void> => {
  const known = await readRecord(folder);
  if (!known) return;
  const files = without(known.files, paths) ?? {};
  if (Object.keys(files).length === 0) await rm(join(folder, recordName), { force: true });
  else await write(folder, { ...known, files, digests: without(known.digests, paths) ?? {} });
};

const without = <Value>(
  entries: Readonly<Record<string, Value>> | undefined,
  paths: readonly string[],
): Readonly<Record<string, Value>> | undefined =>
  entries && Object.fromEntries(Object.entries(entries).filter(([path]) => !paths.includes(path)));

const write = async (folder: string, record: PullRecord): Promise<void> => {
  const target = join(folder, recordName);
  try {
    await writeFile(`${target}.new`, `${JSON.stringify(record, undefined, 2)}\n`);
    await rename(`${target}.new`, target);
  } catch (error) {
    throw explainWriteFailure(target, error);
  }
};

/** Of a file's content, as the hub takes it. */
export const contentHash = (kind: Checksum['kind'], sizeBytes: number): Hash =>
  kind === 'sha256' ? createHash('sha256') : createHash('sha1').update(`blob ${sizeBytes}\0`);
