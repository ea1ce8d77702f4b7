import { constants, type Dirent, statSync } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, opendir, readlink } from 'node:fs/promises';
import { join, parse, sep } from 'node:path';
import { systemErrorCode, escapeLine, Refusal } from '../refusal.ts';
import { resolvePath } from './resolve-path.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/**
 * On Linux, entries are addressed through the folder's file descriptor, so that the folder cannot be replaced while it
 * is used. Elsewhere a folder is addressed by its path, which is resolved again after each open: an opened file is then
 * never outside of the folder, but a folder that is replaced during a rename or removal is not detected.
 */
const hasDescriptorPaths = process.platform === 'linux';
/** Not among Node's constants; the same on every architecture that Node is built for. */
const O_PATH = 0o10000000;
const folderFlags = (hasDescriptorPaths ? O_PATH : O_RDONLY) | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0);

/** A part of the path was replaced between its resolution and its use. The operation can be retried. */
export class PathSwapped extends Error {}

/**
 * Folders that no agent may access: the host's own data. Identified by device and inode, both at the start of the host
 * and now, so that neither renaming nor replacing a folder gives access.
 */
export class ForbiddenFolders {
  readonly #paths: readonly string[];
  readonly #idsAtStart: ReadonlyMap<string, string>;
  constructor(paths: readonly string[]) {
    this.#paths = paths;
    this.#idsAtStart = new Map(
      paths.flatMap((path) => {
        const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
        return stat ? [[path, toFolderId(stat)] as const] : [];
      }),
    );
  }
  async ids(): Promise<ReadonlySet<string>> {
    const now = await Promise.all(this.#paths.map(readFolderId));
    return new Set([...this.#idsAtStart.values(), ...now.filter((id) => id !== undefined)]);
  }
  /** Whether a forbidden folder was moved since the start. */
  async hasMoved(): Promise<boolean> {
    const moves = [...this.#idsAtStart].map(async ([path, id]) => (await readFolderId(path)) !== id);
    return (await Promise.all(moves)).includes(true);
  }
  get paths(): readonly string[] {
    return this.#paths;
  }
}

async function readFolderId(path: string): Promise<string | undefined> {
  try {
    const { real, missing } = await resolvePath(path);
    return missing.length > 0 ? undefined : toFolderId(await lstat(real, { bigint: true }));
  } catch {
    return undefined;
  }
}

const toFolderId = ({ dev, ino }: { dev: bigint; ino: bigint }): string => `${dev}:${ino}`;

/** An entry of a folder. */
export interface Entry {
  /** Printable name on one line; invalid UTF-8 as `\xff`. */
  readonly shown: string;
  /** Undefined when the name is invalid UTF-8, so that no argument can address it. */
  readonly name: string | undefined;
  readonly kind: 'file' | 'folder' | 'link' | 'other';
}

/** An open folder. */
export class Folder {
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #forbidden: ReadonlySet<string>;

  private constructor(path: string, handle: FileHandle, forbidden: ReadonlySet<string>) {
    this.path = path;
    this.#handle = handle;
    this.#forbidden = forbidden;
  }

  /**
   * Opens a real path folder by folder, without following links.
   * @throws Swapped when a part of it is a link or does not exist
   */
  static async open(real: string, forbidden: ReadonlySet<string>): Promise<Folder> {
    const { root } = parse(real);
    let folder = await Folder.#openChecked(root, root, forbidden);
    for (const name of real.slice(root.length).split(sep).filter(Boolean)) {
      const parent = folder;
      try {
        folder = await parent.openFolder(name);
      } finally {
        await parent.close();
      }
    }
    return folder;
  }

  static async #openChecked(path: string, at: string, forbidden: ReadonlySet<string>): Promise<Folder> {
    let handle: FileHandle;
    try {
      handle = await open(at, folderFlags);
    } catch (error) {
      const code = systemErrorCode(error);
      // ENOTDIR is returned for links, too.
      if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') throw new PathSwapped(path);
      throw error;
    }
    try {
      const stat = await handle.stat({ bigint: true });
      if (forbidden.has(toFolderId(stat)))
        throw new Refusal(`${path} belongs to the host itself; no agent may reach it.`);
      const folder = new Folder(path, handle, forbidden);
      await folder.#checkPath(stat);
      return folder;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  /** Path of an entry for file system calls. */
  entryPath(name: string): string {
    return join(this.#ownPath, name);
  }

  /** Opens a subfolder; links are refused. */
  async openFolder(name: string): Promise<Folder> {
    return await Folder.#openChecked(join(this.path, name), this.entryPath(name), this.#forbidden);
  }

  /** Opens a subfolder, and creates it if it is missing. */
  async openOrCreateFolder(name: string): Promise<Folder> {
    try {
      await mkdir(this.entryPath(name));
    } catch (error) {
      if (systemErrorCode(error) !== 'EEXIST') throw error;
    }
    return await this.openFolder(name);
  }

  /** Opens a regular file for reading. Devices, pipes and sockets are not opened. */
  async openFile(name: string): Promise<FileHandle> {
    const shown = join(this.path, name);
    if (name === '') throw new Refusal(`${shown} is a folder; fs_list shows what is in it.`);
    if (!hasDescriptorPaths) requireFile(await lstat(this.entryPath(name)), shown);
    const found = hasDescriptorPaths
      ? await open(this.entryPath(name), O_PATH | O_NOFOLLOW)
      : await open(this.entryPath(name), O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)).catch(
          (error: unknown) => {
            throw systemErrorCode(error) === 'ELOOP' ? new PathSwapped(shown) : error;
          },
        );
    try {
      requireFile(await found.stat(), shown);
      await this.#checkPath();
      if (!hasDescriptorPaths) return found;
      const file = await open(`/proc/self/fd/${found.fd}`, O_RDONLY | O_NONBLOCK);
      await found.close();
      return file;
    } catch (error) {
      await found.close();
      throw error;
    }
  }

  /** Kind of an entry; links are not followed. */
  async kind(name: string): Promise<Entry['kind'] | undefined> {
    try {
      return toEntryKind(await lstat(this.entryPath(name)));
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  async linkTarget(name: string): Promise<string> {
    return toPrintable(await readlink(this.entryPath(name), { encoding: 'buffer' })).shown;
  }

  /** Lists the entries, sorted by name; of a large folder only the first `limit` that the file system returns. */
  async entries(limit: number): Promise<{ entries: Entry[]; more: boolean }> {
    // The types do not declare that names can be returned as bytes.
    const folder = await opendir(this.#ownPath, { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
    const entries: Entry[] = [];
    for await (const entry of folder as AsyncIterable<unknown>) {
      if (entries.length === limit) return { entries: sortEntries(entries), more: true };
      const found = entry as Dirent<Buffer>;
      entries.push({ ...toPrintable(found.name), kind: toEntryKind(found) });
    }
    await this.#checkPath();
    return { entries: sortEntries(entries), more: false };
  }

  /** Flushes the folder, to make renames in it durable. */
  async sync(): Promise<void> {
    const handle = hasDescriptorPaths ? await open(this.#ownPath, O_RDONLY | O_DIRECTORY) : this.#handle;
    try {
      await handle.sync();
    } finally {
      if (handle !== this.#handle) await handle.close();
    }
  }

  get #ownPath(): string {
    return hasDescriptorPaths ? `/proc/self/fd/${this.#handle.fd}` : this.path;
  }

  /** Without descriptor paths: checks that the path still leads to this folder. */
  async #checkPath(own?: { dev: bigint; ino: bigint }): Promise<void> {
    if (hasDescriptorPaths) return;
    const ownId = own ?? (await this.#handle.stat({ bigint: true }));
    const { real, missing } = await resolvePath(this.path);
    if (missing.length > 0 || real !== this.path) throw new PathSwapped(this.path);
    if (toFolderId(await lstat(real, { bigint: true })) !== toFolderId(ownId))
      throw new PathSwapped(this.path);
  }
}

interface StatLike {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}
function requireFile(stat: StatLike, shown: string): void {
  if (stat.isSymbolicLink()) throw new PathSwapped(shown);
  if (stat.isDirectory()) throw new Refusal(`${shown} is a folder; fs_list shows what is in it.`);
  if (!stat.isFile()) throw new Refusal(`${shown} is no regular file but a device, a pipe or a socket.`);
}

const toEntryKind = (entry: StatLike): Entry['kind'] => {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
};

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function toPrintable(bytes: Buffer): { shown: string; name: string | undefined } {
  try {
    const name = utf8.decode(bytes);
    return { shown: escapeLine(name), name };
  } catch {
    const shown = [...bytes]
      .map((byte) =>
        byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
      )
      .join('');
    return { shown, name: undefined };
  }
}

const sortEntries = (entries: Entry[]): Entry[] =>
  entries.sort((a, b) => (a.shown < b.shown ? -1 : Number(a.shown > b.shown)));
