/** Uploaded files, by SHA-256, from which models are created. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpError } from '../../http/error.ts';
import { explainWriteFailure } from '../../pull/errors.ts';

const digestPattern = /^sha256[:-]([0-9a-f]{64})$/i;
/** An upload that no model was created from is deleted after a day. */
const blobTtlMs = 24 * 3600 * 1000;
/** Free disk space that uploads leave. */
const minFreeBytes = 256 * 1024 * 1024;
/** Bytes written between two checks of the free disk space. */
const spaceCheckIntervalBytes = 64 * 1024 * 1024;

export class BlobStore {
  readonly #folder: string;

  /** @param folder created at the first upload */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Path of an upload; undefined if there is none. */
  async path(digest: string): Promise<string | undefined> {
    const path = this.#pathOf(digest);
    const found = await stat(path).catch(() => undefined);
    return found?.isFile() ? path : undefined;
  }

  /** Stores an upload. Content that does not match the digest is deleted and refused. */
  async put(digest: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const target = this.#pathOf(digest);
    const partial = `${target}.${randomUUID()}.part`;
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await this.#removeExpired();
      const found = await this.#write(partial, bytes);
      if (!target.endsWith(found)) {
        const message = `the content has the digest sha256:${found}, expected ${digest}; send the file that the digest was computed from`;
        throw new HttpError(400, 'digest_mismatch', message, { param: 'digest' });
      }
      await rename(partial, target);
    } catch (error) {
      throw explainWriteFailure(target, error);
    } finally {
      await rm(partial, { force: true });
    }
  }

  /** Deletes an upload after a model was created from it. */
  async remove(path: string): Promise<void> {
    await rm(path, { force: true });
  }

  /** @returns SHA-256 of the content in hex */
  async #write(path: string, bytes: AsyncIterable<Uint8Array>): Promise<string> {
    const file = await open(path, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      let bytesSinceCheck = spaceCheckIntervalBytes;
      for await (const part of bytes) {
        bytesSinceCheck += part.byteLength;
        if (bytesSinceCheck >= spaceCheckIntervalBytes) {
          await this.#assertFreeSpace();
          bytesSinceCheck = 0;
        }
        hash.update(part);
        await file.writeFile(part);
      }
      await file.sync();
      return hash.digest('hex');
    } finally {
      await file.close();
    }
  }

  async #assertFreeSpace(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#folder);
    if (bavail * bsize > minFreeBytes + spaceCheckIntervalBytes) return;
    const message = `the disk has only ${bavail * bsize} bytes free, too few for an upload; free some space or choose another --data-dir`;
    throw new HttpError(507, 'disk_full', message);
  }

  async #removeExpired(): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      const found = await stat(path).catch(() => undefined);
      if (found && Date.now() - found.mtimeMs > blobTtlMs) await rm(path, { force: true });
    }
  }

  #pathOf(digest: string): string {
    const hex = digestPattern.exec(digest)?.[1]?.toLowerCase();
    if (hex !== undefined) return join(this.#folder, `sha256-${hex}`);
    const message = `'${digest.slice(0, 100)}' is not a digest: expected sha256: and 64 hex digits`;
    throw new HttpError(400, 'invalid_digest', message, { param: 'digest' });
  }
}
