/** Models that a page was given: files dropped on it or chosen, and what it keeps in its private file system. */
import {
  type ByteSource,
  checkFileName,
  checkRange,
  ModelFileError,
  type ModelFiles,
} from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { droppedPath } from './dropped-path.ts';

/** The part of a directory handle (of the private file system, or of a folder that the user opened) that is used here. */
export interface FolderHandle {
  readonly name: string;
  getFileHandle(name: string): Promise<{ getFile(): Promise<Blob> }>;
  getDirectoryHandle(name: string): Promise<FolderHandle>;
  values(): AsyncIterable<{ readonly kind: 'file' | 'directory'; readonly name: string }>;
}

/** Models keep their files at the top, or one folder per quantisation below. */
const deepestFolder = 2;

/**
 * Ranges of a file of the browser; nothing else of it is read.
 * @param mend what a person does when it is gone
 */
export const blobSource = (blob: Blob, name: string, mend = 'choose the file again'): ByteSource => ({
  name,
  sizeBytes: blob.size,
  async read(offset, length, into) {
    checkRange({ name, sizeBytes: blob.size }, { offset, length, into });
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
    } catch (error) {
      // Browsers refuse to read a file that was changed or removed after it was given to the page.
      throw new ModelFileError('changed', `${name} can no longer be read (${errorMessage(error)}); ${mend}`);
    }
    if (!into) return bytes;
    into.set(bytes);
    return into.subarray(0, length);
  },
  async close() {},
});

/** Files dropped on a page or chosen in it: one of them alone is the model, several are its folder. */
export const droppedFiles = (files: readonly File[]): ModelFiles =>
  namedFiles(new Map(files.map((file) => [droppedPath(file), file])));

/** The same, by names: what was dropped loses its folders on the way to a worker. */
export const namedFiles = (byName: ReadonlyMap<string, Blob>): ModelFiles => {
  const [only] = byName.keys();
  const entry = byName.size === 1 ? only : undefined;
  const name = entry ?? `${byName.size} files`;
  return {
    name,
    entry,
    list: async () => [...byName.keys()].sort(),
    async open(wanted) {
      const file = byName.get(wanted);
      return file && blobSource(file, wanted);
    },
  };
};

/**
 * A folder behind a handle.
 * @param entry the file that is meant; without it the folder is
 */
export const handleFiles = (folder: FolderHandle, entry?: string): ModelFiles => ({
  name: entry ?? folder.name,
  entry,
  list: () => listBelow(folder, '', 0),
  async open(name) {
    checkFileName(folder.name, name);
    const parts = name.split('/');
    const last = parts.pop() ?? '';
    try {
      let place = folder;
      for (const part of parts) place = await place.getDirectoryHandle(part);
      return blobSource(await (await place.getFileHandle(last)).getFile(), name);
    } catch (error) {
      // A folder of that name is no file either.
      if (error instanceof Error && (error.name === 'NotFoundError' || error.name === 'TypeMismatchError'))
        return undefined;
      throw error;
    }
  },
});

const listBelow = async (folder: FolderHandle, prefix: string, depth: number): Promise<string[]> => {
  const names: string[] = [];
  for await (const { kind, name } of folder.values()) {
    if (name.startsWith('.')) continue;
    if (kind === 'file') names.push(`${prefix}${name}`);
    else if (depth < deepestFolder)
      names.push(...(await listBelow(await folder.getDirectoryHandle(name), `${prefix}${name}/`, depth + 1)));
  }
  return names.sort();
};
