/** Installs a model under a name. Its files are hard-linked, because they never change, or copied where links fail. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, link, mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HttpError } from '../../http/error.ts';
import { explainWriteFailure } from '../../pull/errors.ts';
import { systemCode } from '../../util/system-code.ts';
import type { PulledModel } from '../models/pulled-models.ts';
import { removeEmpty } from '../models/remove.ts';

/** A model file: `from` is its current path, `to` its target relative to the models folder, with slashes. */
export interface FileMapping {
  readonly from: string;
  readonly to: string;
}

/** Steps between staging the files and renaming them. Each may throw. */
interface InstallSteps {
  /** Validates the files in the staging folder, where they have the same relative paths. */
  readonly validate?: (stagingFolder: string) => Promise<void>;
  /** Removes the model that has the name. Without this step an existing model is an error. */
  readonly removeExisting?: () => Promise<void>;
  /** Last step before the files are renamed. */
  readonly beforeRename?: () => Promise<void>;
}

/**
 * @param folder the models folder
 * @param roots paths relative to it that must not exist yet
 */
export async function installModel(
  folder: string,
  { files, roots }: { files: readonly FileMapping[]; roots: readonly string[] },
  { validate, removeExisting, beforeRename }: InstallSteps,
): Promise<void> {
  await removeStaleStaging(folder);
  // A leading dot hides the folder from the model list, so that a killed host leaves nothing that looks like a model.
  const stagingFolder = join(folder, `${stagingPrefix}${randomUUID()}`);
  try {
    for (const { from, to } of files) await linkOrCopy(from, pathIn(stagingFolder, to));
    await validate?.(stagingFolder);
    await removeExisting?.();
    for (const root of roots) await assertAbsent(folder, root);
    for (const { to } of files) await mkdir(dirname(pathIn(folder, to)), { recursive: true });
    await beforeRename?.();
    for (const { to } of files) await rename(pathIn(stagingFolder, to), pathIn(folder, to));
  } catch (error) {
    throw explainWriteFailure(folder, error);
  } finally {
    await rm(stagingFolder, { recursive: true, force: true });
    for (const { to } of files) await removeEmpty(dirname(pathIn(folder, to)), folder).catch(() => undefined);
  }
}

const stagingPrefix = '.new-';
/** Older staging folders are leftovers. */
const staleAfterMs = 24 * 3600 * 1000;

/** Removes staging folders that a killed host left. */
async function removeStaleStaging(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(stagingPrefix)) continue;
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > staleAfterMs) await rm(path, { recursive: true, force: true });
  }
}

const pathIn = (folder: string, path: string): string => join(folder, ...path.split('/'));

async function assertAbsent(folder: string, path: string): Promise<void> {
  if ((await stat(pathIn(folder, path)).catch(() => undefined)) === undefined) return;
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
export function mapFiles(
  targetName: string,
  folder: string,
  { path, files }: Pick<PulledModel, 'path' | 'files'>,
): FileMapping[] {
  if (files.length === 0) return [{ from: path, to: `${targetName}.gguf` }];
  const top = path.slice(folder.length + 1).replaceAll('\\', '/');
  return files.map((file) => {
    const from = join(folder, ...file.split('/'));
    if (file.startsWith(`${top}/`)) return { from, to: `${targetName}${file.slice(top.length)}` };
    const part = /-\d{5}-of-\d{5}\.gguf$/i.exec(file)?.[0] ?? '.gguf';
    return { from, to: `${targetName}${part}` };
  });
}
