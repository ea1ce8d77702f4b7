import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isConfigName, LabError } from '../types.ts';
import { safeErrorReason } from '../../words/plain-reason.ts';

/** In bytes: larger than any config that the lab writes. */
export const maxConfigBytes = 16 * 1024 * 1024;

/** Saved configs: regular files `<data dir>/configs/<name>.json`. */
export class ConfigStore {
  readonly folder: string;

  constructor(dataDir: string) {
    this.folder = join(dataDir, 'configs');
  }

  /** Sorted names. Skips everything that is not a regular file with a valid name. */
  async names(): Promise<string[]> {
    const entries = await readdir(this.folder, { withFileTypes: true }).catch(emptyIfMissing);
    return entries
      .filter((entry) => entry.isFile() && entry.name.endsWith('.json'))
      .map(({ name }) => name.slice(0, -'.json'.length))
      .filter(isConfigName)
      .sort();
  }

  /** Reads the saved text. Throws `invalid_name` and `unknown_config`. */
  async read(name: string): Promise<string> {
    const path = this.#path(name);
    let bytes: Uint8Array;
    try {
      bytes = await readRegularFile(path, maxConfigBytes, constants.O_NOFOLLOW);
    } catch (error) {
      const saved = (await this.names()).slice(0, 20).join(', ') || 'none';
      throw new LabError(
        'unknown_config',
        `There is no config '${name}' (${fileErrorReason(error)}); saved configs: ${saved}.`,
      );
    }
    return new TextDecoder().decode(bytes);
  }

  /** Saves a config atomically; replaces one of the same name. Throws `invalid_name` and `lab_failed`. */
  async save(name: string, text: string): Promise<void> {
    const path = this.#path(name);
    try {
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      const partial = join(this.folder, `.${randomUUID()}.tmp`);
      try {
        await writeAndSync(await open(partial, 'wx', 0o600), text);
        await rename(partial, path);
      } catch (error) {
        await unlink(partial).catch(() => undefined);
        throw error;
      }
      await syncFolder(this.folder);
    } catch (error) {
      throw new LabError('lab_failed', `The config '${name}' cannot be saved: ${fileErrorReason(error)}.`);
    }
  }

  /** Throws `invalid_name`, `unknown_config` and `lab_failed`. */
  async delete(name: string): Promise<void> {
    await this.read(name);
    try {
      await unlink(this.#path(name));
      await syncFolder(this.folder);
    } catch (error) {
      throw new LabError('lab_failed', `The config '${name}' cannot be deleted: ${fileErrorReason(error)}.`);
    }
  }

  #path(name: string): string {
    if (isConfigName(name)) return join(this.folder, `${name}.json`);
    throw new LabError(
      'invalid_name',
      `name: expected letters, digits, '.', '_' and '-', at most 64 characters, got ${JSON.stringify(name.slice(0, 80))}.`,
    );
  }
}

/**
 * Reads a regular file of at most `maxBytes` bytes. Throws for everything else, and never blocks on it.
 * @param flags additional flags for `open`
 */
export async function readRegularFile(path: string, maxBytes: number, flags = 0): Promise<Uint8Array> {
  // Without O_NONBLOCK, opening a pipe waits for a writer. Flags that Windows lacks are undefined, which `|` treats as
  // 0.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error('it is not a regular file');
    if (stats.size > maxBytes)
      throw new Error(`it has ${stats.size} bytes, more than the limit of ${maxBytes}`);
    const bytes = new Uint8Array(stats.size + 1);
    let size = 0;
    while (size < bytes.length) {
      const { bytesRead } = await handle.read(bytes, size);
      if (bytesRead === 0) break;
      size += bytesRead;
    }
    if (size !== stats.size) throw new Error('it changed while it was read');
    return bytes.subarray(0, size);
  } finally {
    await handle.close();
  }
}

/** Reason of a file system error, without the path. */
export function fileErrorReason(error: unknown): string {
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    ENOTDIR: 'there is no such file',
    EISDIR: 'it is a directory',
    ELOOP: 'it is a symbolic link',
    EACCES: 'permission denied',
    ENOSPC: 'the disk is full',
    EROFS: 'the file system is read-only',
  };
  const { code } = error as NodeJS.ErrnoException;
  return known[code ?? ''] ?? safeErrorReason(error);
}

async function writeAndSync(handle: FileHandle, text: string): Promise<void> {
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a rename durable over a power failure. Ignored on systems that do not support it, such as Windows. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

function emptyIfMissing(error: NodeJS.ErrnoException) {
  if (error.code === 'ENOENT') return [];
  throw error;
}
