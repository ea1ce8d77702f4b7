/** Model files in a browser: dropped or chosen files, and files in the origin private file system. */
import {
  type ByteSource,
  assertSafePath,
  checkRange,
  ModelFileError,
  type ModelFiles,
} from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { droppedPath } from './dropped-path.ts';

/** The used part of `FileSystemDirectoryHandle`. */
export interface FolderHandle {
  readonly name: string;
  getFileHandle(name: string): Promise<{ getFile(): Promise<Blob> }>;
  getDirectoryHandle(name: string): Promise<FolderHandle>;
  values(): AsyncIterable<{ readonly kind: 'file' | 'directory'; readonly name: string }>;
}

/** Models have their files at the top level or in one folder per quantization. */
const maxFolderDepth = 2;

/**
 * Reads ranges of a `Blob`.
 * @param remedy advice for the error message if the file can no longer be read
 */
export const blobSource = (blob: Blob, name: string, remedy = 'choose the file again'): ByteSource => ({
  name,
  sizeBytes: blob.size,
  async read(offset, length, into) {
    checkRange({ name, sizeBytes: blob.size }, { offset, length, into });
    let bytes: Uint8Array;
    try {
      bytes = new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
    } catch (error) {
      // Browsers refuse to read a file that was changed or deleted after the user chose it.
      throw new ModelFileError(
        'changed',
        `${name} can no longer be read (${errorMessage(error)}); ${remedy}`,
      );
    }
    if (!into) return bytes;
    into.set(bytes);
    return into.subarray(0, length);
  },
  async close() {},
});

/** Files that the user dropped or chose. A single file is the model; several files are a model folder. */
export const droppedFiles = (files: readonly File[]): ModelFiles =>
  blobFiles(new Map(files.map((file) => [droppedPath(file), file])));

/** `droppedFiles` with explicit names. Files lose their relative paths when they are posted to a worker. */
export const blobFiles = (byName: ReadonlyMap<string, Blob>): ModelFiles => {
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
 * Model files in a folder given by a handle.
 * @param entry the file that is the model; default: the whole folder
 */
export const folderHandleFiles = (folder: FolderHandle, entry?: string): ModelFiles => ({
  name: entry ?? folder.name,
  entry,
  list: () => listFiles(folder, '', 0),
  async open(name) {
    assertSafePath(folder.name, name);
    const parts = name.split('/');
    const last = parts.pop() ?? '';
    try {
      let place = folder;
      for (const part of parts) place = await place.getDirectoryHandle(part);
      return blobSource(await (await place.getFileHandle(last)).getFile(), name);
    } catch (error) {
      // TypeMismatchError: the name is a folder.
      if (error instanceof Error && (error.name === 'NotFoundError' || error.name === 'TypeMismatchError'))
        return undefined;
      throw error;
    }
  },
});

const listFiles = async (folder: FolderHandle, prefix: string, depth: number): Promise<string[]> => {
  const names: string[] = [];
  for await (const { kind, name } of folder.values()) {
    if (name.startsWith('.')) continue;
    if (kind === 'file') names.push(`${prefix}${name}`);
    else if (depth < maxFolderDepth)
      names.push(...(await listFiles(await folder.getDirectoryHandle(name), `${prefix}${name}/`, depth + 1)));
  }
  return names.sort();
};
