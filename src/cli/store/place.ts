/** Puts a model under a name: its files are linked, since they never change, or copied where that cannot be done. */
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, link, mkdir, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HttpError } from '../../http/error.ts';
import { explainWriteFailure } from '../../pull/errors.ts';
import { systemCode } from '../../util/system-code.ts';
import type { PulledModel } from '../models/pulled.ts';
import { removeEmpty } from '../models/remove.ts';

/** A file of a model: where it is, and where it belongs below the folder of models, with slashes. */
export interface PlacedFile {
  readonly from: string;
  readonly to: string;
}

/** What happens between the staged files and the named ones; each step may throw. */
interface Steps {
  /** Looks at the files where they are staged, in the same places below another folder. */
  readonly check?: (staged: string) => Promise<void>;
  /** Removes what has the name; without it, what is there already is refused. */
  readonly makeRoom?: () => Promise<void>;
  /** The last step before the files get their names. */
  readonly settle?: () => Promise<void>;
}

/**
 * @param folder of models
 * @param roots what must not be there yet, below the folder of models
 */
export async function placeModel(
  folder: string,
  { files, roots }: { files: readonly PlacedFile[]; roots: readonly string[] },
  { check, makeRoom, settle }: Steps,
): Promise<void> {
  await sweep(folder);
  // A name with a dot is no model: a host that ends here leaves nothing that looks like one.
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
/** Nothing is staged for longer. */
const stagedMs = 24 * 3600 * 1000;

/** Removes what a host left that was ended in the middle. */
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
  const message = `there is already a model of this name (${path}); delete it first, or choose another name`;
  throw new HttpError(409, 'model_exists', message, { param: 'destination' });
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 });
  const source = await realpath(from);
  try {
    await link(source, to);
  } catch (error) {
    // Another file system, or one without links.
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOSYS'].includes(systemCode(error) ?? '')) throw error;
    await copyFile(source, to, constants.COPYFILE_EXCL);
  }
}

/** A model's files under another name: a file, the parts of a split one, or a folder. */
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
