/** Uploads to create models from, by their SHA-256, until a model is made of them. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpError } from '../../http/error.ts';
import { explainWriteFailure } from '../../pull/errors.ts';

const form = /^sha256[:-]([0-9a-f]{64})$/i;
/** Uploads that nothing was made of go after a day. */
const keptMs = 24 * 3600 * 1000;
/** Left on the disk for everybody else. */
const reserveBytes = 256 * 1024 * 1024;
/** Bytes between two looks at the disk. */
const lookBytes = 64 * 1024 * 1024;

export class Blobs {
  readonly #folder: string;

  /** @param folder made at the first upload */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Where an upload lies; undefined where there is none. */
  async path(digest: string): Promise<string | undefined> {
    const path = this.#pathOf(digest);
    const found = await stat(path).catch(() => undefined);
    return found?.isFile() ? path : undefined;
  }

  /** Takes an upload in; one that is something else than its digest says is thrown away. */
  async put(digest: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const target = this.#pathOf(digest);
    const partial = `${target}.${randomUUID()}.part`;
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await this.#sweep();
      const found = await this.#write(partial, bytes);
      if (!target.endsWith(found)) {
        const message = `the content has the digest sha256:${found}, not ${digest}; send the file that the digest was made of`;
        throw new HttpError(400, 'digest_mismatch', message, { param: 'digest' });
      }
      await rename(partial, target);
    } catch (error) {
      throw explainWriteFailure(target, error);
    } finally {
      await rm(partial, { force: true });
    }
  }

  /** A model was made of it. */
  async drop(path: string): Promise<void> {
    await rm(path, { force: true });
  }

  /** @returns the SHA-256 in hex */
  async #write(path: string, bytes: AsyncIterable<Uint8Array>): Promise<string> {
    const file = await open(path, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      let sinceLook = lookBytes;
      for await (const part of bytes) {
        sinceLook += part.byteLength;
        if (sinceLook >= lookBytes) {
          await this.#requireRoom();
          sinceLook = 0;
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

  async #requireRoom(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#folder);
    if (bavail * bsize > reserveBytes + lookBytes) return;
    const message = `the disk has ${bavail * bsize} bytes free, too few for an upload; free some space or name another --data-dir`;
    throw new HttpError(507, 'disk_full', message);
  }

  async #sweep(): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      const found = await stat(path).catch(() => undefined);
      if (found && Date.now() - found.mtimeMs > keptMs) await rm(path, { force: true });
    }
  }

  #pathOf(digest: string): string {
    const hex = form.exec(digest)?.[1]?.toLowerCase();
    if (hex !== undefined) return join(this.#folder, `sha256-${hex}`);
    const message = `'${digest.slice(0, 100)}' is no digest: expected sha256: and 64 hex digits`;
    throw new HttpError(400, 'invalid_digest', message, { param: 'digest' });
  }
}
