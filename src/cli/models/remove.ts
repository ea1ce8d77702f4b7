import { readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { formatBytes } from '../../engine/index.ts';
import { removeFromRecord } from '../../pull/download-record.ts';
import { printable } from '../../terminal/printable.ts';
import type { CliContext } from '../cli-context.ts';
import { locateInRepository, type PulledModel } from './pulled-models.ts';

/** Deletes a pulled model and prints how much space that freed. */
export async function removeModel(folder: string, model: PulledModel, cli: CliContext): Promise<void> {
  await deleteModel(folder, model);
  const count = model.files.length === 1 ? '1 file' : `${model.files.length} files`;
  cli.stdout.write(`removed ${printable(model.name)}: ${count}, ${formatBytes(model.sizeBytes)} freed\n`);
}

/** Deletes the files of a pulled model, and folders that become empty. */
export async function deleteModel(folder: string, model: PulledModel): Promise<void> {
  const { repositoryFolder, paths } = locateInRepository(folder, model.files);
  for (const file of model.files) {
    const path = join(folder, ...file.split('/'));
    await rm(path, { force: true });
    // State file that a running download keeps next to its partial file.
    if (file.endsWith('.part')) await rm(`${path}.json`, { force: true });
  }
  await removeFromRecord(repositoryFolder, paths);
  for (const path of paths) await removeEmpty(dirname(join(repositoryFolder, ...path.split('/'))), folder);
}

/** Removes an empty folder, and parent folders that become empty, up to but not including `top`. */
export async function removeEmpty(folder: string, top: string): Promise<void> {
  if (folder === top || !folder.startsWith(top)) return;
  const entries = await readdir(folder).catch(() => ['']);
  if (entries.length > 0) return;
  await rmdir(folder);
  await removeEmpty(dirname(folder), top);
}
