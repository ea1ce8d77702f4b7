/** Installs a model under a name. Its files are hard-linked, because they never change, or copied where links fail. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, link, mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HttpError } from '../../http/error.ts';
import { explainWriteFailure } from '../../pull/errors.ts';
import { systemCode } from '../../util/system-code.ts';
import type { PulledModel } from '../models/pulled.ts';
import { removeEmpty } from '../models/remove.ts';

/** A model file: `from` is its current path, `to` its target relative to the models folder, with slashes. */
export interface PlacedFile {
  readonly from: string;
  readonly to: string;
}

/** Steps between staging the files and renaming them. Each may throw. */
interface Steps {
  /** Validates the files in the staging folder, where they have the same relative paths. */
  readonly check?: (staged: string) => Promise<void>;
  /** Removes the model that has the name. Without this step an existing model is an error. */
  readonly makeRoom?: () => Promise<void>;
  /** Last step before the files are renamed. */
  readonly settle?: () => Promise<void>;
}

/**
 * @param folder the models folder
 * @param roots paths relative to it that must not exist yet
 */
export async function placeModel(
  folder: string,
  { files, roots }: { files: readonly PlacedFile[]; roots: readonly string[] },
  { check, makeRoom, settle }: Steps,
): Promise<void> {
  await sweep(folder);
  // A leading dot hides the folder from the model list, so that a killed host leaves nothing that looks like a model.
  const staged = join(folder, `${stagedPrefix}${randomUUID()}`);
  try {
    for (const { from, to } of files) await linkOrCopy(from, below(staged, to));
    await check?.(staged);
    await makeRoom?.();
    for (const root of roots) await refuseExisting(folder, root);
    for (const { to } of files) await mkdir(dirname(below(folder, to)), { recursive: true });
    await settle?.();
    for (const { to } of files) await rename(below(staged, to), below(folder, to));
  } catch (error) {
    throw explainWriteFailure(folder, error);
  } finally {
    await rm(staged, { recursive: true, force: true });
    for (const { to } of files) await removeEmpty(dirname(below(folder, to)), folder).catch(() => undefined);
  }
}

const stagedPrefix = '.new-';
/** Older staging folders are leftovers. */
const stagedMs = 24 * 3600 * 1000;

/** Removes staging folders that a killed host left. */
async function sweep(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(stagedPrefix)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > stagedMs) await rm(path, { recursive: true, force: true });
  }
}

const below = (folder: string, path: string): string => join(folder, ...path.split('/'));

async function refuseExisting(folder: string, path: string): Promise<void> {
  if ((await stat(below(folder, path)).catch(() => undefined)) === undefined) return;
  const message = `a model of this name exists already (${path}); delete it first or choose another name`;
  throw new HttpError(409, 'model_exists', message, { param: 'destination' });
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const source = await realpath(from);
  try {
    await link(source, to);
  } catch (error) {
    // The target is on another file system, or on one without hard links.
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOSYS'].includes(systemCode(error) ?? '')) throw error;
    await copyFile(source, to, constants.COPYFILE_EXCL);
  }
}

/** Maps the files of a model (one file, split parts or a folder) to another name. */
export function filesTo(
  place: string,
  folder: string,
  { path, files }: Pick<PulledModel, 'path' | 'files'>,
): PlacedFile[] {
  if (files.length === 0) return [{ from: path, to: `${place}.gguf` }];
  const top = path.slice(folder.length + 1).replaceAll('\\', '/');
  return files.map((file) => {
    const from = join(folder, ...file.split('/'));
    if (file.startsWith(`${top}/`)) return { from, to: `${place}${file.slice(top.length)}` };
    const part = /-\d{5}-of-\d{5}\.gguf$/i.exec(file)?.[0] ?? '.gguf';
    return { from, to: `${place}${part}` };
  });
}
