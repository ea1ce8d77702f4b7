import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isConfigName, LabError } from '../types.ts';
import { plainReason } from '../../words/plain-reason.ts';

/** Larger than any config that the lab writes. */
export const largestConfig = 16 * 1024 * 1024;

/** Saved configs: `<data dir>/configs/<name>.json`, each a regular file. */
export class ConfigStore {
  readonly folder: string;

  constructor(dataDir: string) {
    this.folder = join(dataDir, 'configs');
  }

  /** Sorted. What is no regular file or has no safe name is not listed. */
  async names(): Promise<string[]> {
    const entries = await readdir(this.folder, { withFileTypes: true }).catch(noneIfAbsent);
    return entries
      .filter((entry) => entry.isFile() && entry.name.endsWith('.json'))
      .map(({ name }) => name.slice(0, -'.json'.length))
      .filter(isConfigName)
      .sort();
  }

  /** The text as it was saved. Throws `invalid_name` and `unknown_config`. */
  async read(name: string): Promise<string> {
    const path = this.#path(name);
    let bytes: Uint8Array;
    try {
      bytes = await readRegularFile(path, largestConfig, constants.O_NOFOLLOW);
    } catch (error) {
      const saved = (await this.names()).slice(0, 20).join(', ') || 'none';
      throw new LabError(
        'unknown_config',
        `There is no config '${name}' (${messageOf(error)}); saved are: ${saved}.`,
      );
    }
    return new TextDecoder().decode(bytes);
  }

  /** Replaces what was saved under the name, at once or not at all. Throws `invalid_name` and `lab_failed`. */
  async save(name: string, text: string): Promise<void> {
    const path = this.#path(name);
    try {
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      const partial = join(this.folder, `.${randomUUID()}.tmp`);
      try {
        await written(await open(partial, 'wx', 0o600), text);
        await rename(partial, path);
      } catch (error) {
        await unlink(partial).catch(() => undefined);
        throw error;
      }
      await synced(this.folder);
    } catch (error) {
      throw new LabError('lab_failed', `The config '${name}' cannot be saved: ${messageOf(error)}.`);
    }
  }

  #path(name: string): string {
    if (isConfigName(name)) return join(this.folder, `${name}.json`);
    throw new LabError('invalid_name', `${JSON.stringify(name.slice(0, 80))} is no name for a config.`);
  }
}

/**
 * Reads a regular file of at most so many bytes; throws for anything else, without ever waiting on it.
 * @param flags further ones for `open`
 */
export async function readRegularFile(path: string, most: number, flags = 0): Promise<Uint8Array> {
  // Without O_NONBLOCK, opening a pipe waits for its writer. Flags that Windows lacks are undefined, which `|` takes for 0.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw new Error('it is not a regular file');
    if (facts.size > most) throw new Error(`it has ${facts.size} bytes, more than the limit of ${most}`);
    const bytes = new Uint8Array(facts.size + 1);
    let size = 0;
    while (size < bytes.length) {
      const { bytesRead } = await handle.read(bytes, size);
      if (bytesRead === 0) break;
      size += bytesRead;
    }
    if (size !== facts.size) throw new Error('it changes while it is read');
    return bytes.subarray(0, size);
  } finally {
    await handle.close();
  }
}

/** What went wrong with a file, without its path. */
export function messageOf(error: unknown): string {
  const known: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file',
    ENOTDIR: 'there is no such file',
    EISDIR: 'it is a directory',
    ELOOP: 'it is a symbolic link',
    EACCES: 'the host has no right to it',
    ENOSPC: 'the disk is full',
    EROFS: 'the file system is read-only',
  };
  const { code } = error as NodeJS.ErrnoException;
  return known[code ?? ''] ?? plainReason(error);
}

async function written(handle: FileHandle, text: string): Promise<void> {
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes a rename last over a power cut; systems without it (Windows) refuse. */
async function synced(folder: string): Promise<void> {
  const handle = await open(folder).catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}

function noneIfAbsent(error: NodeJS.ErrnoException) {
  if (error.code === 'ENOENT') return [];
  throw error;
}
