/** Cache of models in the origin private file system, filled file by file. */
import { type ByteSource, ModelFileError } from '../engine/index.ts';
import type { AttemptOptions } from './attempts.ts';
import { blobSource } from './browser-files.ts';
import { isMissing, openForWriting, type StorageFolder } from './browser-storage.ts';
import { download, type DownloadOptions } from './resumable-download.ts';
import {
  cacheKey,
  type CachedFile,
  type CacheRecord,
  type Locks,
  cacheLockName,
  readRecord,
  writeRecord,
} from './model-cache-records.ts';

export interface ModelCacheOptions extends Pick<DownloadOptions, 'signal' | 'room' | keyof AttemptOptions> {
  /** Folder of the cache. */
  readonly models: StorageFolder;
  readonly locks: Locks;
  readonly onBytes: (file: string, done: number, total: number | undefined) => void;
  /** Called for a file that is already cached. */
  readonly onCached?: (file: string, bytes: number) => void;
  /** Called when another page is downloading the same model and this one waits. */
  readonly onWait?: () => void;
}

export interface ModelCacheEntry {
  /** Opens a file of the model, after downloading it if it is not cached. Undefined if there is no such file. */
  readonly open: (url: string) => Promise<ByteSource | undefined>;
  /** Call after the model was loaded: marks the cache entry as complete. */
  readonly finish: () => Promise<void>;
  /**
   * Call if the content is not a model (a login page, for example): deletes the entry, so that the next load downloads
   * again.
   */
  readonly drop: () => Promise<void>;
}

/** Opens the cache entry of the model at `url`. One page at a time writes it. */
export async function openModelCacheEntry(url: string, options: ModelCacheOptions): Promise<ModelCacheEntry> {
  const key = cacheKey(url);
  // Opened for each file: another page may delete the entry meanwhile.
  const folderOf = () => options.models.getDirectoryHandle(key, { create: true });
  /** Files that were opened. */
  const foundFiles = new Set<string>();
  const withLock = <T>(work: () => Promise<T>) => runLocked(cacheLockName(key), options, work);

  const open = async (file: string): Promise<ByteSource | undefined> => {
    const folder = await folderOf();
    const record = await readRecord(folder, url);
    if (record.complete && !record.files[file]) return undefined;
    const cachedSource = await openCachedFile(folder, file, record);
    if (cachedSource) options.onCached?.(file, cachedSource.sizeBytes);
    const source =
      cachedSource ?? (await withLock(async () => downloadFile(await folderOf(), { url, file, options })));
    if (source) foundFiles.add(file);
    return source;
  };
  return {
    open,
    drop: () =>
      withLock(async () => {
        if (!(await readRecord(await folderOf(), url)).complete)
          await options.models.removeEntry(key, { recursive: true });
      }),
    finish: async () => {
      await withLock(async () => {
        const folder = await folderOf();
        const record = await readRecord(folder, url);
        // If another page deleted some of the files meanwhile, the entry is not complete.
        const isWhole = [...foundFiles].every((file) => record.files[file]?.whole);
        if (isWhole && !record.complete && foundFiles.size > 0)
          await writeRecord(folder, { ...record, complete: true });
      });
    },
  };
}

async function runLocked<T>(
  name: string,
  { locks, signal, onWait }: ModelCacheOptions,
  work: () => Promise<T>,
): Promise<T> {
  // Undefined: another page holds the lock.
  const at = await locks.request(name, { ifAvailable: true }, async (lock) =>
    lock === null ? undefined : { value: await work() },
  );
  if (at) return at.value;
  onWait?.();
  return await locks.request(name, signal ? { signal } : {}, work);
}

/** Opens a completely cached file. Undefined if it is incomplete or the browser evicted it. */
async function openCachedFile(
  folder: StorageFolder,
  url: string,
  { files }: CacheRecord,
): Promise<ByteSource | undefined> {
  const kept = files[url];
  if (!kept?.whole) return undefined;
  try {
    const blob = await (await folder.getFileHandle(kept.as)).getFile();
    return kept.version.bytes === undefined || blob.size === kept.version.bytes
      ? blobSource(blob, url, 'another page deleted it or the browser evicted it: load the model again')
      : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

interface DownloadRequest {
  readonly url: string;
  readonly file: string;
  readonly options: ModelCacheOptions;
}

async function downloadFile(
  folder: StorageFolder,
  { url, file, options }: DownloadRequest,
): Promise<ByteSource | undefined> {
  const read = () => readRecord(folder, url);
  const before = await read();
  // The previous holder of the lock may have downloaded it.
  const cachedSource = await openCachedFile(folder, file, before);
  if (cachedSource) return cachedSource;
  const begun = before.files[file];
  const fileName = begun?.as ?? `file-${Object.keys(before.files).length}`;
  const updateRecord = async (changed: Partial<CachedFile>) => {
    const now = await read();
    const kept = { as: fileName, version: {}, whole: false, ...now.files[file], ...changed };
    await writeRecord(folder, { ...now, files: { ...now.files, [file]: kept } });
  };
  const handle = await openForWriting(await folder.getFileHandle(fileName, { create: true }));
  let found: boolean;
  let bytes: number;
  try {
    found = await download(file, handle, begun?.version, {
      ...options,
      onVersion: (version) => updateRecord({ version, whole: false }),
      onBytes: (done, total) => options.onBytes(file, done, total),
    });
    bytes = handle.getSize();
  } finally {
    handle.close();
  }
  if (!found) {
    await folder.removeEntry(fileName);
    return undefined;
  }
  const { version } = (await read()).files[file] ?? { version: {} };
  await updateRecord({ version: { ...version, bytes }, whole: true });
  const source = await openCachedFile(folder, file, await read());
  if (source) return source;
  throw new ModelFileError(
    'unreadable',
    `${url}: the browser evicted the file right after storing it; load it again`,
  );
}
