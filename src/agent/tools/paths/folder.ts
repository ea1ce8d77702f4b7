import { constants, type Dirent, statSync } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, opendir, readlink } from 'node:fs/promises';
import { join, parse, sep } from 'node:path';
import { codeOf, onOneLine, Refusal } from '../refusal.ts';
import { resolvePath } from './resolve.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/**
 * On Linux, entries are addressed through the folder's file descriptor, so that the folder cannot be replaced while it
 * is used. Elsewhere a folder is addressed by its path, which is resolved again after each open: an opened file is then
 * never outside of the folder, but a folder that is replaced during a rename or removal is not detected.
 */
const anchored = process.platform === 'linux';
/** Not among Node's constants; the same on every architecture that Node is built for. */
const O_PATH = 0o10000000;
const folderFlags = (anchored ? O_PATH : O_RDONLY) | (O_DIRECTORY ?? 0) | (O_NOFOLLOW ?? 0);

/** A part of the path was replaced between its resolution and its use. The operation can be retried. */
export class Swapped extends Error {}

/**
 * Folders that no agent may access: the host's own data. Identified by device and inode, both at the start of the host
 * and now, so that neither renaming nor replacing a folder gives access.
 */
export class Forbidden {
  readonly #paths: readonly string[];
  readonly #first: ReadonlyMap<string, string>;
  constructor(paths: readonly string[]) {
    this.#paths = paths;
    this.#first = new Map(
      paths.flatMap((path) => {
        const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
        return stat ? [[path, idOf(stat)] as const] : [];
      }),
    );
  }
  async ids(): Promise<ReadonlySet<string>> {
    const now = await Promise.all(this.#paths.map(idAt));
    return new Set([...this.#first.values(), ...now.filter((id) => id !== undefined)]);
  }
  /** Whether a forbidden folder was moved since the start. */
  async moved(): Promise<boolean> {
    const moves = [...this.#first].map(async ([path, id]) => (await idAt(path)) !== id);
    return (await Promise.all(moves)).includes(true);
  }
  get paths(): readonly string[] {
    return this.#paths;
  }
}

async function idAt(path: string): Promise<string | undefined> {
  try {
    const { real, missing } = await resolvePath(path);
    return missing.length > 0 ? undefined : idOf(await lstat(real, { bigint: true }));
  } catch {
    return undefined;
  }
}

const idOf = ({ dev, ino }: { dev: bigint; ino: bigint }): string => `${dev}:${ino}`;

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
    let folder = await Folder.#opened(root, root, forbidden);
    for (const name of real.slice(root.length).split(sep).filter(Boolean)) {
      const parent = folder;
      try {
        folder = await parent.folder(name);
      } finally {
        await parent.close();
      }
    }
    return folder;
  }

  static async #opened(path: string, at: string, forbidden: ReadonlySet<string>): Promise<Folder> {
    let handle: FileHandle;
    try {
      handle = await open(at, folderFlags);
    } catch (error) {
      const code = codeOf(error);
      // ENOTDIR is returned for links, too.
      if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') throw new Swapped(path);
      throw error;
    }
    try {
      const stat = await handle.stat({ bigint: true });
      if (forbidden.has(idOf(stat)))
        throw new Refusal(`${path} belongs to the host itself; no agent may reach it.`);
      const folder = new Folder(path, handle, forbidden);
      await folder.#check(stat);
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
  at(name: string): string {
    return join(this.#self, name);
  }

  /** Opens a subfolder; links are refused. */
  async folder(name: string): Promise<Folder> {
    return await Folder.#opened(join(this.path, name), this.at(name), this.#forbidden);
  }

  /** Opens a subfolder, and creates it if it is missing. */
  async madeFolder(name: string): Promise<Folder> {
    try {
      await mkdir(this.at(name));
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
    return await this.folder(name);
  }

  /** Opens a regular file for reading. Devices, pipes and sockets are not opened. */
  async file(name: string): Promise<FileHandle> {
    const shown = join(this.path, name);
    if (name === '') throw new Refusal(`${shown} is a folder; fs_list shows what is in it.`);
    if (!anchored) requireFile(await lstat(this.at(name)), shown);
    const found = anchored
      ? await open(this.at(name), O_PATH | O_NOFOLLOW)
      : await open(this.at(name), O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)).catch(
          (error: unknown) => {
            throw codeOf(error) === 'ELOOP' ? new Swapped(shown) : error;
          },
        );
    try {
      requireFile(await found.stat(), shown);
      await this.#check();
      if (!anchored) return found;
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
      return kindOf(await lstat(this.at(name)));
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  async linkTarget(name: string): Promise<string> {
    return printable(await readlink(this.at(name), { encoding: 'buffer' })).shown;
  }

  /** Lists the entries, sorted by name; of a large folder only the first `limit` that the file system returns. */
  async entries(most: number): Promise<{ entries: Entry[]; more: boolean }> {
    // The types do not declare that names can be returned as bytes.
    const folder = await opendir(this.#self, { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
    const entries: Entry[] = [];
    for await (const entry of folder as AsyncIterable<unknown>) {
      if (entries.length === most) return { entries: sorted(entries), more: true };
      const found = entry as Dirent<Buffer>;
      entries.push({ ...printable(found.name), kind: kindOf(found) });
    }
    await this.#check();
    return { entries: sorted(entries), more: false };
  }

  /** Flushes the folder, to make renames in it durable. */
  async sync(): Promise<void> {
    const handle = anchored ? await open(this.#self, O_RDONLY | O_DIRECTORY) : this.#handle;
    try {
      await handle.sync();
    } finally {
      if (handle !== this.#handle) await handle.close();
    }
  }

  get #self(): string {
    return anchored ? `/proc/self/fd/${this.#handle.fd}` : this.path;
  }

  /** Without descriptor paths: checks that the path still leads to this folder. */
  async #check(own?: { dev: bigint; ino: bigint }): Promise<void> {
    if (anchored) return;
    const mine = own ?? (await this.#handle.stat({ bigint: true }));
    const { real, missing } = await resolvePath(this.path);
    if (missing.length > 0 || real !== this.path) throw new Swapped(this.path);
    if (idOf(await lstat(real, { bigint: true })) !== idOf(mine)) throw new Swapped(this.path);
  }
}

interface Kinds {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}
function requireFile(stat: Kinds, shown: string): void {
  if (stat.isSymbolicLink()) throw new Swapped(shown);
  if (stat.isDirectory()) throw new Refusal(`${shown} is a folder; fs_list shows what is in it.`);
  if (!stat.isFile()) throw new Refusal(`${shown} is no regular file but a device, a pipe or a socket.`);
}

const kindOf = (entry: Kinds): Entry['kind'] => {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
};

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function printable(bytes: Buffer): { shown: string; name: string | undefined } {
  try {
    const name = utf8.decode(bytes);
    return { shown: onOneLine(name), name };
  } catch {
    const shown = [...bytes]
      .map((byte) =>
        byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
      )
      .join('');
    return { shown, name: undefined };
  }
}

const sorted = (entries: Entry[]): Entry[] =>
  entries.sort((a, b) => (a.shown < b.shown ? -1 : Number(a.shown > b.shown)));
