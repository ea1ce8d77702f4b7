/** Digests of verified models. A stored digest is valid until one of the model's files changes. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { changeRecord, readRecord } from './record.ts';

/** Detects a changed file without reading it. */
interface Stamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Stamps of a model's files by path relative to its folder. */
export type Stamps = Readonly<Record<string, Stamp>>;

/** Current stamps of files. */
export const stampsOf = async (folder: string, paths: readonly string[]): Promise<Stamps> =>
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
export const noteDigest = (folder: string, stamps: Stamps, digest: string | undefined): Promise<void> =>
  changeRecord(folder, (known) => {
    const digests = { ...known.digests };
    for (const [path, stamp] of Object.entries(stamps)) {
      if (digest === undefined) delete digests[path];
      else digests[path] = { digest, ...stamp };
    }
    return { ...known, digests };
  });

/** The stored digest of a model. Undefined if there is none, or if a file changed since. */
export const notedDigestOf = async (
  folder: string,
  paths: readonly string[],
): Promise<string | undefined> => {
  const { digests } = (await readRecord(folder)) ?? {};
  const first = digests?.[paths[0] ?? '']?.digest;
  if (first === undefined) return undefined;
  const stamps = await stampsOf(folder, paths);
  const same = paths.every((path) => {
    const noted = digests?.[path];
    const now = stamps[path];
    return (
      noted?.digest === first && noted.sizeBytes === now?.sizeBytes && noted.modifiedMs === now.modifiedMs
    );
  });
  return same ? first : undefined;
};
