/** Digests of verified models. A stored digest is valid until one of the model's files changes. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { updateRecord, readRecord } from './download-record.ts';

/** Detects a changed file without reading it. */
interface FileStamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Stamps of a model's files by path relative to its folder. */
export type FileStamps = Readonly<Record<string, FileStamp>>;

/** Current stamps of files. */
export const readStamps = async (folder: string, paths: readonly string[]): Promise<FileStamps> =>
  Object.fromEntries(
    await Promise.all(
      paths.map(async (path) => {
        const { size, mtimeMs } = await stat(join(folder, ...path.split('/')));
        return [path, { sizeBytes: size, modifiedMs: mtimeMs }] as const;
      }),
    ),
  );

/**
 * Stores a model's digest, or removes it.
 * @param stamps stamps of all files, taken before the files were read
 * @param digest undefined if the model is bad
 */
export const storeDigest = (folder: string, stamps: FileStamps, digest: string | undefined): Promise<void> =>
  updateRecord(folder, (known) => {
    const digests = { ...known.digests };
    for (const [path, stamp] of Object.entries(stamps)) {
      if (digest === undefined) delete digests[path];
      else digests[path] = { digest, ...stamp };
    }
    return { ...known, digests };
  });

/** The stored digest of a model. Undefined if there is none, or if a file changed since. */
export const readStoredDigest = async (
  folder: string,
  paths: readonly string[],
): Promise<string | undefined> => {
  const { digests } = (await readRecord(folder)) ?? {};
  const first = digests?.[paths[0] ?? '']?.digest;
  if (first === undefined) return undefined;
  const stamps = await readStamps(folder, paths);
  const same = paths.every((path) => {
    const stored = digests?.[path];
    const current = stamps[path];
    return (
      stored?.digest === first &&
      stored.sizeBytes === current?.sizeBytes &&
      stored.modifiedMs === current.modifiedMs
    );
  });
  return same ? first : undefined;
};
