/** The used part of the origin private file system (OPFS), and text files in it. */
import type { Store } from '../engine/index.ts';
import { sleep } from '../util/sleep.ts';
import type { FolderHandle } from './browser-files.ts';

/** The used part of `FileSystemSyncAccessHandle`. It is available in workers only and locks the file. */
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

/** Storage quota and usage of this origin, in bytes. */
export interface StorageEstimate {
  readonly quota?: number;
  readonly usage?: number;
}

/** Attempts at opening a file that another page has open, and the delay between them. */
const attempts = 5;
const busyRetryDelayMs = 40;

export const isMissing = (error: unknown): boolean =>
  error instanceof Error && error.name === 'NotFoundError';
const isBusy = (error: unknown): boolean =>
  error instanceof Error && error.name === 'NoModificationAllowedError';

/** Undefined if the file does not exist. */
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
  const handle = await openForWriting(await folder.getFileHandle(name, { create: true }));
  try {
    handle.truncate(0);
    writeFully(handle, bytes, 0);
    handle.flush();
  } finally {
    handle.close();
  }
};

/**
 * Writes all bytes.
 * @throws QuotaExceededError also if the browser only reports it by the returned count (negative in Chromium).
 */
export const writeFully = (handle: WriteHandle, bytes: Uint8Array, at: number): void => {
  if (handle.write(bytes, { at }) === bytes.length) return;
  throw new DOMException('the file system wrote only a part of the bytes', 'QuotaExceededError');
};

export const isQuotaError = (error: unknown): boolean =>
  error instanceof Error && error.name === 'QuotaExceededError';

export const openForWriting = async (file: StorageFile): Promise<WriteHandle> => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await file.createSyncAccessHandle();
    } catch (error) {
      if (!isBusy(error) || attempt === attempts) throw error;
      await sleep(busyRetryDelayMs * attempt);
    }
  }
};

/** Stores texts as files in a folder. Works in workers only. */
export const folderTextStore = (folder: StorageFolder): Store => ({
  read: (name) => readText(folder, name),
  write: (name, text) => writeText(folder, name, text),
});
