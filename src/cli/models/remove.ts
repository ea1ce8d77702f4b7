import { readdir, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { formatBytes } from '../../engine/index.ts';
import { forgetFiles } from '../../pull/record.ts';
import type { World } from '../world.ts';
import type { PulledModel } from './pulled.ts';

/** Deletes what belongs to a pulled model, and folders that are empty then; says what that freed. */
export async function removeModel(folder: string, model: PulledModel, world: World): Promise<void> {
  const homes = new Map<string, string[]>();
  for (const file of model.files) {
    const path = join(folder, ...file.split('/'));
    await rm(path, { force: true });
    // What a download under way notes beside its part.
    if (file.endsWith('.part')) await rm(`${path}.json`, { force: true });
    const [home = '', ...below] = file.split('/');
    if (below.length > 0) homes.set(home, [...(homes.get(home) ?? []), below.join('/')]);
  }
  for (const [home, files] of homes) {
    await forgetFiles(join(folder, home), files);
    for (const file of files) await removeEmpty(dirname(join(folder, home, ...file.split('/'))), folder);
  }
  const count = model.files.length === 1 ? '1 file' : `${model.files.length} files`;
  world.stdout.write(`removed ${model.name}: ${count}, ${formatBytes(model.sizeBytes)} freed\n`);
}

/** Removes a folder that is empty, and those above it that are empty then, up to `top`. */
async function removeEmpty(folder: string, top: string): Promise<void> {
  if (folder === top || !folder.startsWith(top)) return;
  const left = await readdir(folder).catch(() => ['']);
  if (left.length > 0) return;
  await rmdir(folder);
  await removeEmpty(dirname(folder), top);
}
