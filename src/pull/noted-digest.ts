/** Digests of models that were read through, kept beside them until one of their files changes. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { changeRecord, readRecord } from './record.ts';

/** What tells, without reading a file, that it is the one it was. */
interface Stamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

/** Files of a model by their paths below its folder. */
export type Stamps = Readonly<Record<string, Stamp>>;

/** As the files are now. */
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
 * @param stamps of all files of the model from before they were read: what changed since is not what was read
 * @param digest undefined when the model was found to be bad
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

/** Undefined where none was noted, or a file is no longer the one that was read. */
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
