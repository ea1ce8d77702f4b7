import type { Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  type FileHandle,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RemoteFile } from './choose.ts';
import { explainWriteFailure, PullError } from './errors.ts';
import { createContentHash } from './download-record.ts';

const hashing = ({ checksum, sizeBytes }: RemoteFile): Hash => createContentHash(checksum.kind, sizeBytes);

/**
 * A partial download: `<path>.part` has the received bytes, `<path>.part.json` the checksum of the file they belong to.
 * Both survive an interruption. The hash is updated with every write.
 */
export class PartFile {
  readonly path: string;
  readonly #file: RemoteFile;
  readonly #handle: FileHandle;
  #hash: Hash;
  #length = 0;

  private constructor(path: string, file: RemoteFile, handle: FileHandle) {
    this.path = path;
    this.#file = file;
    this.#handle = handle;
    this.#hash = hashing(file);
  }

  /** Opens the partial file of an earlier run if it is of the same content; otherwise starts from zero. */
  static async open(path: string, file: RemoteFile): Promise<PartFile> {
    try {
      await mkdir(dirname(path), { recursive: true });
      const resumable = await resumableBytes(path, file);
      if (resumable === 0) {
        await writeFile(`${path}.part`, '');
        await writeFile(`${path}.part.json`, JSON.stringify({ checksum: file.checksum.hex }));
      }
      const part = new PartFile(path, file, await open(`${path}.part`, 'r+'));
      await part.#resumeAt(resumable);
      return part;
    } catch (error) {
      throw explainWriteFailure(path, error);
    }
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  async append(bytes: Uint8Array): Promise<void> {
    if (this.#length + bytes.length > this.#file.sizeBytes) {
      throw new PullError(
        'server',
        `${this.#file.path}: the server sent more than the file's ${this.#file.sizeBytes} bytes`,
      );
    }
    try {
      for (let done = 0; done < bytes.length; ) {
        const { bytesWritten } = await this.#handle.write(
          bytes,
          done,
          bytes.length - done,
          this.#length + done,
        );
        done += bytesWritten;
      }
    } catch (error) {
      throw explainWriteFailure(this.path, error);
    }
    this.#hash.update(bytes);
    this.#length += bytes.length;
  }

  async restart(): Promise<void> {
    await this.#handle.truncate(0);
    this.#hash = hashing(this.#file);
    this.#length = 0;
  }

  /**
   * Verifies the checksum, then renames the file to its final name. A wrong file is deleted, because it cannot be
   * resumed.
   */
  async finish(): Promise<void> {
    const found = this.#hash.digest('hex');
    const { kind, hex } = this.#file.checksum;
    if (found !== hex) {
      await this.close();
      await removePartFiles(this.path);
      throw new PullError(
        'checksum',
        `${this.#file.path}: the content does not match its ${kind} (expected ${hex}, got ${found}); the file was deleted, run the command again`,
      );
    }
    try {
      await this.#handle.sync();
      await this.close();
      await rename(`${this.path}.part`, this.path);
      await rm(`${this.path}.part.json`, { force: true });
      await syncFolder(dirname(this.path));
    } catch (error) {
      throw explainWriteFailure(this.path, error);
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async #resumeAt(length: number): Promise<void> {
    // Drops bytes beyond the valid length.
    await this.#handle.truncate(length);
    if (length === 0) return;
    for await (const bytes of createReadStream(`${this.path}.part`, { highWaterMark: 1 << 20 }))
      this.#hash.update(bytes);
    this.#length = length;
  }
}

/** Number of bytes of an earlier run's partial file that can be reused. */
const resumableBytes = async (path: string, file: RemoteFile): Promise<number> => {
  try {
    const state: unknown = JSON.parse(await readFile(`${path}.part.json`, 'utf8'));
    const same = state instanceof Object && 'checksum' in state && state.checksum === file.checksum.hex;
    const { size } = await stat(`${path}.part`);
    return same && size <= file.sizeBytes ? size : 0;
  } catch {
    // There is no partial file, or it cannot be read: start from zero.
    return 0;
  }
};

const removePartFiles = async (path: string): Promise<void> => {
  await rm(`${path}.part`, { force: true });
  await rm(`${path}.part.json`, { force: true });
};

/** Bytes of a file that must still be downloaded. */
export const missingBytes = async (path: string, file: RemoteFile): Promise<number> =>
  file.sizeBytes - (await resumableBytes(path, file));

/** @throws PullError `disk_full` or `not_writable` */
export const assertFreeSpace = async (folder: string, neededBytes: number): Promise<void> => {
  try {
    await mkdir(folder, { recursive: true });
  } catch (error) {
    throw explainWriteFailure(folder, error);
  }
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (neededBytes > free) {
    throw new PullError(
      'disk_full',
      `${folder}: needs ${neededBytes} more bytes, but the disk has only ${free} free; free some space or choose another --data-dir`,
    );
  }
};

/** Makes the rename durable. Windows does not support and does not need it. */
const syncFolder = async (folder: string): Promise<void> => {
  if (process.platform === 'win32') return;
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};

/** Whether the file at `path` has the content of `file`. */
export const isComplete = async (path: string, file: RemoteFile): Promise<boolean> => {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size !== file.sizeBytes) return false;
  const hash = hashing(file);
  for await (const bytes of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(bytes);
  return hash.digest('hex') === file.checksum.hex;
};
