import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type ByteSource, assertSafePath, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { openFile } from './node-file.ts';

/** Models have their files at the top level or in one folder per quantization. */
const maxFolderDepth = 2;

/**
 * Opens a model file with the files next to it, or a model folder.
 * @throws ModelFileError `not_found` or `unreadable`
 */
export const openLocalFiles = async (path: string): Promise<ModelFiles> => {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return folderFiles(path, undefined);
  // Throws if the path is not a readable file.
  await (await openFile(path)).close();
  return folderFiles(dirname(path), basename(path));
};

const folderFiles = (folder: string, entry: string | undefined): ModelFiles => ({
  name: entry === undefined ? folder : join(folder, entry),
  entry,
  list: () => listFiles(folder, '', 0),
  async open(name): Promise<ByteSource | undefined> {
    if (name !== entry) assertSafePath(folder, name);
    try {
      return await openFile(join(folder, ...name.split('/')));
    } catch (error) {
      if (error instanceof ModelFileError && error.code === 'not_found') return undefined;
      throw error;
    }
  },
});

/** Lists the files of a folder, sorted, without hidden files and folders. */
const listFiles = async (folder: string, prefix: string, depth: number): Promise<string[]> => {
  const entries = await readdir(join(folder, prefix), { withFileTypes: true });
  const names: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = `${prefix}${entry.name}`;
    if (entry.name.startsWith('.')) continue;
    // Follow links to files: the Hugging Face cache consists of them.
    const found = entry.isSymbolicLink() ? await stat(join(folder, name)).catch(() => undefined) : entry;
    if (found?.isFile()) names.push(name);
    else if (entry.isDirectory() && depth < maxFolderDepth)
      names.push(...(await listFiles(folder, `${name}/`, depth + 1)));
  }
  return names;
};
