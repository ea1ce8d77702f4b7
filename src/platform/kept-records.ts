/** Records of the model cache: one folder per URL in the origin private file system. */
import { isMissing, readText, type StorageFolder, writeText } from './browser-storage.ts';
import type { Version } from './kept-download.ts';
import { sha256 } from './sha256.ts';

const recordName = 'record.json';

export interface KeptFile {
  /** File name in the folder. */
  readonly as: string;
  readonly version: Version;
  readonly whole: boolean;
}

export interface KeptRecord {
  /** URL of the model. */
  readonly url: string;
  /** Files by URL. */
  readonly files: Readonly<Record<string, KeptFile>>;
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
export const keyOf = (url: string): string => {
  const hash = sha256();
  hash.update(new TextEncoder().encode(url));
  return hash.digest().slice(0, 32);
};

/** Name of the lock for writing a folder. */
export const lockOf = (key: string): string => `lathe model ${key}`;

const empty = (url: string): KeptRecord => ({ url, files: {}, complete: false });

/** Reads a record. A truncated record counts as absent, and the files are downloaded again. */
export async function readRecord(folder: StorageFolder, url: string): Promise<KeptRecord> {
  const text = await readText(folder, recordName);
  return parsed(text) ?? empty(url);
}

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

function parsed(text: string | undefined): KeptRecord | undefined {
  if (text === undefined) return undefined;
  try {
    const record = JSON.parse(text) as KeptRecord;
    return typeof record.url === 'string' && isRecord(record.files) ? record : undefined;
  } catch {
    return undefined;
  }
}

export const writeRecord = (folder: StorageFolder, record: KeptRecord): Promise<void> =>
  writeText(folder, recordName, `${JSON.stringify(record)}\n`);

/** Cached state of a model. */
export interface KeptModelFacts {
  readonly url: string;
  readonly bytes: number;
  readonly whole: boolean;
}

export async function listKept(models: StorageFolder): Promise<KeptModelFacts[]> {
  const found: KeptModelFacts[] = [];
  for await (const { kind, name } of models.values()) {
    if (kind !== 'directory') continue;
    try {
      const folder = await models.getDirectoryHandle(name);
      const record = parsed(await readText(folder, recordName));
      // Skip entries without a readable record.
      if (record) found.push(await factsOf(folder, record));
    } catch (error) {
      // Another page deleted it meanwhile.
      if (!isMissing(error)) throw error;
    }
  }
  return found.sort((a, b) => (a.url < b.url ? -1 : 1));
}

async function factsOf(folder: StorageFolder, record: KeptRecord): Promise<KeptModelFacts> {
  let bytes = 0;
  let whole = record.complete;
  for (const kept of Object.values(record.files)) {
    const size = await sizeOf(folder, kept.as);
    bytes += size;
    whole &&= kept.whole && size === kept.version.bytes;
  }
  return { url: record.url, bytes, whole };
}

async function sizeOf(folder: StorageFolder, name: string): Promise<number> {
  try {
    return (await (await folder.getFileHandle(name)).getFile()).size;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw error;
  }
}

/** @returns false when another page is writing it */
export async function forgetKept(url: string, models: StorageFolder, locks: Locks): Promise<boolean> {
  const key = keyOf(url);
  return await locks.request(lockOf(key), { ifAvailable: true }, async (lock) => {
    if (lock === null) return false;
    await models.removeEntry(key, { recursive: true }).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    return true;
  });
}
