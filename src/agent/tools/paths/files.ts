import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, link, lstat, open, rename, rmdir, unlink } from 'node:fs/promises';
import { systemErrorCode, Refusal } from '../refusal.ts';
import type { Folder } from './folder.ts';

/** Hash of a file's content: `sha256:` and hex, or `absent`. */
export type BaseHash = string;
export const absentHash: BaseHash = 'absent';
export const hashBytes = (bytes: Uint8Array): BaseHash =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

const chunkBytes = 256 * 1024;

/** Reads a file in chunks, which share one buffer. */
export async function* readChunks(file: FileHandle, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffer = Buffer.allocUnsafe(chunkBytes);
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, chunkBytes);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Reads a whole file. @throws Refusal when it is larger than the limit */
export async function readWholeFile(
  file: FileHandle,
  shown: string,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  // The reported size is not used: it is 0 in /proc, and files may grow.
  for await (const chunk of readChunks(file, signal)) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new Refusal(`${shown} is larger than the ${maxBytes} bytes that can be changed at once.`);
    parts.push(Buffer.from(chunk));
  }
  return Buffer.concat(parts);
}

export async function hashFile(file: FileHandle, signal: AbortSignal): Promise<BaseHash> {
  const hash = createHash('sha256');
  for await (const chunk of readChunks(file, signal)) hash.update(chunk);
  return `sha256:${hash.digest('hex')}`;
}

/** Opens a file, calls `use` and closes the file; undefined when there is no file. */
export async function withFile<Answer>(
  folder: Folder,
  name: string,
  use: (file: FileHandle) => Promise<Answer>,
): Promise<Answer | undefined> {
  let file: FileHandle;
  try {
    file = await folder.openFile(name);
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

/** The base of a change has changed; nothing was done. */
export class BaseMoved extends Error {}

async function checkBase(folder: Folder, name: string, base: BaseHash, signal: AbortSignal): Promise<void> {
  const currentHash = (await withFile(folder, name, (file) => hashFile(file, signal))) ?? absentHash;
  if (currentHash !== base) throw new BaseMoved(`${currentHash} instead of ${base}`);
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants;

/**
 * Replaces or creates a file atomically. Keeps the mode and, if permitted, the owner. A new file never replaces one
 * that was created meanwhile. An existing file is compared right before the rename; a write between comparison and
 * rename is lost, because no system call does both.
 * @throws Moved
 */
export async function replaceFile(
  folder: Folder,
  name: string,
  contents: Uint8Array,
  base: BaseHash,
  signal: AbortSignal,
): Promise<void> {
  await checkBase(folder, name, base, signal);
  const temporary = folder.entryPath(`.lathe-${randomBytes(8).toString('hex')}.tmp`);
  const existing = base === absentHash ? undefined : await lstat(folder.entryPath(name));
  const file = await open(
    temporary,
    O_WRONLY | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0),
    existing ? 0o600 : 0o666,
  );
  try {
    try {
      await file.writeFile(contents);
      if (existing) {
        await file.chown(existing.uid, existing.gid).catch(() => undefined);
        // Without setuid and setgid bits, which would give the new contents the owner's rights.
        await file.chmod(existing.mode & 0o777);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    await checkBase(folder, name, base, signal);
    if (base === absentHash) await linkNewFile(temporary, folder.entryPath(name));
    else await rename(temporary, folder.entryPath(name));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  await folder.sync();
}

/** Codes of a file system without hard links. */
const lacksLinks: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

async function linkNewFile(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (error) {
    const code = systemErrorCode(error);
    if (code === 'EEXIST') throw new BaseMoved('there is a file by now', { cause: error });
    if (!lacksLinks.has(code ?? '')) throw error;
    await rename(temporary, path);
    return;
  }
  await unlink(temporary);
}

/** @throws Moved */
export async function removeFile(
  folder: Folder,
  name: string,
  base: BaseHash,
  signal: AbortSignal,
): Promise<void> {
  await checkBase(folder, name, base, signal);
  await unlink(folder.entryPath(name));
  await folder.sync();
}

/** @throws Moved when it is gone, or no longer empty */
export async function removeEmptyFolder(folder: Folder, name: string): Promise<void> {
  try {
    await rmdir(folder.entryPath(name));
  } catch (error) {
    const code = systemErrorCode(error) ?? '';
    if (['ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'].includes(code))
      throw new BaseMoved(code, { cause: error });
    throw error;
  }
  await folder.sync();
}

/** A name in an open folder. */
export interface FolderEntry {
  readonly folder: Folder;
  readonly name: string;
}
const pathOf = ({ folder, name }: FolderEntry): string => folder.entryPath(name);

/**
 * Renames a file. The new name is a second link at first, since a rename would replace what is there by then; a crash in
 * between leaves both names, and moving it again takes away the old one.
 * @throws Moved
 */
export async function moveFile(
  from: FolderEntry,
  to: FolderEntry,
  base: BaseHash,
  signal: AbortSignal,
): Promise<void> {
  const checked = await withFile(from.folder, from.name, async (file) => ({
    hash: await hashFile(file, signal),
    stat: await file.stat({ bigint: true }),
  }));
  if (checked?.hash !== base) throw new BaseMoved(`${checked?.hash ?? absentHash} instead of ${base}`);
  const isChecked = async (entry: FolderEntry) =>
    isSameFile(await lstat(pathOf(entry), { bigint: true }), checked.stat);
  try {
    await link(pathOf(from), pathOf(to));
  } catch (error) {
    const code = systemErrorCode(error) ?? '';
    if (code === 'EEXIST') {
      if (!(await isChecked(to))) throw new BaseMoved('there is something by now', { cause: error });
    } else if (lacksLinks.has(code)) {
      if ((await to.folder.kind(to.name)) !== undefined) throw new BaseMoved('there is something by now');
      await rename(pathOf(from), pathOf(to));
      await syncBoth(from, to);
      return;
    } else throw error;
  }
  if (!(await isChecked(to)) || !(await isChecked(from))) {
    await unlink(pathOf(to));
    throw new BaseMoved('it was replaced meanwhile');
  }
  await to.folder.sync();
  await unlink(pathOf(from));
  await from.folder.sync();
}

/**
 * Renames a folder. An empty folder that appears at the new name in the last moment is replaced, since no call of Node's
 * refuses that; nothing else is.
 * @throws Moved
 */
export async function moveFolder(from: FolderEntry, to: FolderEntry): Promise<void> {
  // Refuses the host's own folders.
  await (await from.folder.openFolder(from.name)).close();
  if ((await to.folder.kind(to.name)) !== undefined) throw new BaseMoved('there is something by now');
  try {
    await rename(pathOf(from), pathOf(to));
  } catch (error) {
    const code = systemErrorCode(error) ?? '';
    if (['ENOENT', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST', 'EINVAL'].includes(code))
      throw new BaseMoved(code, { cause: error });
    throw error;
  }
  if ((await to.folder.kind(to.name)) !== 'folder') {
    await rename(pathOf(to), pathOf(from));
    throw new BaseMoved('it was replaced meanwhile');
  }
  await syncBoth(from, to);
}

const isSameFile = (one: FileId, other: FileId): boolean => one.dev === other.dev && one.ino === other.ino;
type FileId = { readonly dev: bigint; readonly ino: bigint };

/** Whether both names lead to one file. */
export async function areLinked(one: FolderEntry, other: FolderEntry): Promise<boolean> {
  const [first, second] = await Promise.all(
    [one, other].map((entry) => lstat(pathOf(entry), { bigint: true })),
  );
  return first !== undefined && second !== undefined && isSameFile(first, second);
}

async function syncBoth(from: FolderEntry, to: FolderEntry): Promise<void> {
  await to.folder.sync();
  await from.folder.sync();
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes UTF-8; undefined for invalid UTF-8 or NUL characters. */
export function decodeText(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
