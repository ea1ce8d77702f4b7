/** The part of the private file system (OPFS) that is used here, and how texts are kept in it. */
import type { Store } from '../engine/index.ts';
import { pause } from '../util/pause.ts';
import type { FolderHandle } from './browser-files.ts';

/** Only workers get one. While it is open nobody else writes the file. */
export interface WriteHandle {
  getSize(): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(bytes: number): void;
  flush(): void;
  close(): void;
}

export interface StorageFile {
  getFile(): Promise<Blob>;
  createSyncAccessHandle(): Promise<WriteHandle>;
}

export interface StorageFolder extends FolderHandle {
  getFileHandle(name: string, options?: { create?: boolean }): Promise<StorageFile>;
  getDirectoryHandle(name: string, options?: { create?: boolean }): Promise<StorageFolder>;
  removeEntry(name: string, options?: { recursive?: boolean }): Promise<void>;
}

/** What the browser lets this origin keep, in bytes. */
export interface StorageRoom {
  readonly quota?: number;
  readonly usage?: number;
}

/** How often one that another page holds open is tried, and how long we wait between. */
const attempts = 5;
const busyMs = 40;

export const isMissing = (error: unknown): boolean =>
  error instanceof Error && error.name === 'NotFoundError';
const isBusy = (error: unknown): boolean =>
  error instanceof Error && error.name === 'NoModificationAllowedError';

/** Undefined where there is none of that name. */
export const readText = async (folder: StorageFolder, name: string): Promise<string | undefined> => {
  try {
    return await (await (await folder.getFileHandle(name)).getFile()).text();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
};

export const writeText = async (folder: StorageFolder, name: string, text: string): Promise<void> => {
  const bytes = new TextEncoder().encode(text);
  const handle = await openToWrite(await folder.getFileHandle(name, { create: true }));
  try {
    handle.truncate(0);
    writeWhole(handle, bytes, 0);
    handle.flush();
  } finally {
    handle.close();
  }
};

/** @throws QuotaExceededError also where the browser only says so by the count: Chromium's is negative, as 32 bits. */
export const writeWhole = (handle: WriteHandle, bytes: Uint8Array, at: number): void => {
  if (handle.write(bytes, { at }) === bytes.length) return;
  throw new DOMException('the file system took a part only', 'QuotaExceededError');
};

export const isFull = (error: unknown): boolean =>
  error instanceof Error && error.name === 'QuotaExceededError';

export const openToWrite = async (file: StorageFile): Promise<WriteHandle> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await file.createSyncAccessHandle();
    } catch (error) {
      if (!isBusy(error) || attempt === attempts) throw error;
      await pause(busyMs * attempt);
    }
  }
};

/** Texts as files of a folder, for a worker. */
export const folderStore = (folder: StorageFolder): Store => ({
  read: (name) => readText(folder, name),
  write: (name, text) => writeText(folder, name, text),
});
