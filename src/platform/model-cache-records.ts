/** Records of the model cache: one folder per URL in the origin private file system. */
import { isMissing, readText, type StorageFolder, writeText } from './browser-storage.ts';
import type { Version } from './resumable-download.ts';
import { sha256 } from './sha256.ts';

const recordName = 'record.json';

export interface CachedFile {
  /** File name in the folder. */
  readonly as: string;
  readonly version: Version;
  readonly whole: boolean;
}

export interface CacheRecord {
  /** URL of the model. */
  readonly url: string;
  /** Files by URL. */
  readonly files: Readonly<Record<string, CachedFile>>;
  /** The model was loaded once, so files that are not listed do not exist on the server. */
  readonly complete: boolean;
}

/** The used part of `navigator.locks`. */
export interface Locks {
  request<T>(
    name: string,
    options: { readonly ifAvailable?: boolean; readonly signal?: AbortSignal },
    work: (lock: object | null) => Promise<T>,
  ): Promise<T>;
}

/** Folder name of a URL. */
export const cacheKey = (url: string): string => {
  const hash = sha256();
  hash.update(new TextEncoder().encode(url));
  return hash.digest().slice(0, 32);
};

/** Name of the lock for writing a folder. */
export const cacheLockName = (key: string): string => `lathe model ${key}`;

const emptyRecord = (url: string): CacheRecord => ({ url, files: {}, complete: false });

/** Reads a record. A truncated record counts as absent, and the files are downloaded again. */
export async function readRecord(folder: StorageFolder, url: string): Promise<CacheRecord> {
  const text = await readText(folder, recordName);
  return parseRecord(text) ?? emptyRecord(url);
}

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

function parseRecord(text: string | undefined): CacheRecord | undefined {
  if (text === undefined) return undefined;
  try {
    const record = JSON.parse(text) as CacheRecord;
    return typeof record.url === 'string' && isRecord(record.files) ? record : undefined;
  } catch {
    return undefined;
  }
}

export const writeRecord = (folder: StorageFolder, record: CacheRecord): Promise<void> =>
  writeText(folder, recordName, `${JSON.stringify(record)}\n`);

/** Cached state of a model. */
export interface CachedModelInfo {
  readonly url: string;
  readonly bytes: number;
  readonly whole: boolean;
}

export async function listCachedModels(models: StorageFolder): Promise<CachedModelInfo[]> {
  const found: CachedModelInfo[] = [];
  for await (const { kind, name } of models.values()) {
    if (kind !== 'directory') continue;
    try {
      const folder = await models.getDirectoryHandle(name);
      const record = parseRecord(await readText(folder, recordName));
      // Skip entries without a readable record.
      if (record) found.push(await cachedModelInfo(folder, record));
    } catch (error) {
      // Another page deleted it meanwhile.
      if (!isMissing(error)) throw error;
    }
  }
  return found.sort((a, b) => (a.url < b.url ? -1 : 1));
}

async function cachedModelInfo(folder: StorageFolder, record: CacheRecord): Promise<CachedModelInfo> {
  let bytes = 0;
  let whole = record.complete;
  for (const file of Object.values(record.files)) {
    const size = await fileSize(folder, file.as);
    bytes += size;
    whole &&= file.whole && size === file.version.bytes;
  }
  return { url: record.url, bytes, whole };
}

async function fileSize(folder: StorageFolder, name: string): Promise<number> {
  try {
    return (await (await folder.getFileHandle(name)).getFile()).size;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}

/** @returns false when another page is writing it */
export async function deleteCachedModel(url: string, models: StorageFolder, locks: Locks): Promise<boolean> {
  const key = cacheKey(url);
  return await locks.request(cacheLockName(key), { ifAvailable: true }, async (lock) => {
    if (lock === null) return false;
    await models.removeEntry(key, { recursive: true }).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    return true;
  });
}
