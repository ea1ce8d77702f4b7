/** Models that a page keeps in its private file system, brought there file by file. */
import { type ByteSource, ModelFileError } from '../engine/index.ts';
import type { AttemptOptions } from './attempts.ts';
import { blobSource } from './browser-files.ts';
import { isMissing, openToWrite, type StorageFolder } from './browser-storage.ts';
import { download, type DownloadOptions } from './kept-download.ts';
import {
  keyOf,
  type KeptFile,
  type KeptRecord,
  type Locks,
  lockOf,
  readRecord,
  writeRecord,
} from './kept-records.ts';

export interface KeepOptions extends Pick<DownloadOptions, 'signal' | 'room' | keyof AttemptOptions> {
  /** Where models are kept. */
  readonly models: StorageFolder;
  readonly locks: Locks;
  readonly onBytes: (file: string, done: number, total: number | undefined) => void;
  /** The file is here already. */
  readonly onKept?: (file: string, bytes: number) => void;
  /** Another page is bringing the same model; we wait for it. */
  readonly onWait?: () => void;
}

export interface Keeper {
  /** A file of the model, brought here first unless it is here already. Undefined where there is none. */
  readonly open: (url: string) => Promise<ByteSource | undefined>;
  /** The model was loaded: nothing that it needs is missing. */
  readonly finish: () => Promise<void>;
  /** What came is no model, as a page of a network that wants a login: the next load asks the server again. */
  readonly drop: () => Promise<void>;
}

/** Keeps the files of the model that a page calls `url`. One page at a time writes them. */
export async function keeper(url: string, options: KeepOptions): Promise<Keeper> {
  const key = keyOf(url);
  // Anew each time: another page may forget the model between two of its files.
  const folderOf = () => options.models.getDirectoryHandle(key, { create: true });
  /** Files that the model has. */
  const found = new Set<string>();
  const alone = <T>(work: () => Promise<T>) => holding(lockOf(key), options, work);

  const open = async (file: string): Promise<ByteSource | undefined> => {
    const folder = await folderOf();
    const record = await readRecord(folder, url);
    if (record.complete && !record.files[file]) return undefined;
    const there = await opened(folder, file, record);
    if (there) options.onKept?.(file, there.sizeBytes);
    const source = there ?? (await alone(async () => bring(await folderOf(), { url, file, options })));
    if (source) found.add(file);
    return source;
  };
  return {
    open,
    drop: () =>
      alone(async () => {
        if (!(await readRecord(await folderOf(), url)).complete)
          await options.models.removeEntry(key, { recursive: true });
      }),
    finish: async () => {
      await alone(async () => {
        const folder = await folderOf();
        const record = await readRecord(folder, url);
        // Where some of them were forgotten meanwhile, what is left is not the model.
        const isWhole = [...found].every((file) => record.files[file]?.whole);
        if (isWhole && !record.complete && found.size > 0)
          await writeRecord(folder, { ...record, complete: true });
      });
    },
  };
}

async function holding<T>(
  name: string,
  { locks, signal, onWait }: KeepOptions,
  work: () => Promise<T>,
): Promise<T> {
  // Undefined: somebody else holds it.
  const at = await locks.request(name, { ifAvailable: true }, async (lock) =>
    lock === null ? undefined : { value: await work() },
  );
  if (at) return at.value;
  onWait?.();
  return await locks.request(name, signal ? { signal } : {}, work);
}

/** A file that is whole; undefined where it is not, or the browser has thrown it away. */
async function opened(
  folder: StorageFolder,
  url: string,
  { files }: KeptRecord,
): Promise<ByteSource | undefined> {
  const kept = files[url];
  if (!kept?.whole) return undefined;
  try {
    const blob = await (await folder.getFileHandle(kept.as)).getFile();
    return kept.version.bytes === undefined || blob.size === kept.version.bytes
      ? blobSource(blob, url, 'another page forgot it, or the browser needed the room: load the model again')
      : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

interface Bringing {
  readonly url: string;
  readonly file: string;
  readonly options: KeepOptions;
}

async function bring(
  folder: StorageFolder,
  { url, file, options }: Bringing,
): Promise<ByteSource | undefined> {
  const read = () => readRecord(folder, url);
  const before = await read();
  // Who held the lock before may have brought it.
  const there = await opened(folder, file, before);
  if (there) return there;
  const begun = before.files[file];
  const as = begun?.as ?? `file-${Object.keys(before.files).length}`;
  const note = async (changed: Partial<KeptFile>) => {
    const now = await read();
    const kept = { as, version: {}, whole: false, ...now.files[file], ...changed };
    await writeRecord(folder, { ...now, files: { ...now.files, [file]: kept } });
  };
  const handle = await openToWrite(await folder.getFileHandle(as, { create: true }));
  let found: boolean;
  let bytes: number;
  try {
    found = await download(file, handle, begun?.version, {
      ...options,
      onVersion: (version) => note({ version, whole: false }),
      onBytes: (done, total) => options.onBytes(file, done, total),
    });
    bytes = handle.getSize();
  } finally {
    handle.close();
  }
  if (!found) {
    await folder.removeEntry(as);
    return undefined;
  }
  const { version } = (await read()).files[file] ?? { version: {} };
  await note({ version: { ...version, bytes }, whole: true });
  const source = await opened(folder, file, await read());
  if (source) return source;
  throw new ModelFileError('unreadable', `${url}: the browser threw away what it was to keep; load it again`);
}
