import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { type ByteSource, checkRange, ModelFileError } from '../engine/index.ts';

/** One read call must be smaller than 2^31 bytes. */
const maxBytesPerRead = 1 << 30;

/** Non-blocking, because opening a pipe waits for a writer. Windows has neither the flag nor such pipes. */
const readFlags = constants.O_RDONLY | constants.O_NONBLOCK;

/** @throws ModelFileError `not_found` or `unreadable` */
export const openFile = async (path: string): Promise<ByteSource> => {
  const handle = await open(path, readFlags).catch((error: NodeJS.ErrnoException) => {
    throw toModelFileError(path, error);
  });
  const file = { name: path, sizeBytes: await sizeOf(handle, path) };
  return {
    ...file,
    async read(offset, length, into) {
      checkRange(file, { offset, length, into });
      const target = into ? into.subarray(0, length) : new Uint8Array(length);
      await readFully(handle, { path, target, offset });
      return target;
    },
    close: () => handle.close(),
  };
};

/** Size of a file. Closes the handle on errors and if it is not a regular file. */
const sizeOf = async (handle: FileHandle, path: string): Promise<number> => {
  try {
    const stat = await handle.stat().catch((error: NodeJS.ErrnoException) => {
      throw toModelFileError(path, error);
    });
    if (stat.isFile()) return stat.size;
    const what = stat.isDirectory() ? 'a directory, not a file' : 'not a regular file';
    throw new ModelFileError('unreadable', `${path} is ${what}`);
  } catch (error) {
    await handle.close();
    throw error;
  }
};

const readFully = async (
  handle: FileHandle,
  { path, target, offset }: { path: string; target: Uint8Array; offset: number },
): Promise<void> => {
  for (let done = 0; done < target.length; ) {
    const part = Math.min(target.length - done, maxBytesPerRead);
    const { bytesRead } = await handle
      .read(target, done, part, offset + done)
      .catch((error: NodeJS.ErrnoException) => {
        throw toModelFileError(path, error);
      });
    if (bytesRead === 0) {
      throw new ModelFileError(
        'truncated',
        `${path} became shorter while it was read (ends at byte ${offset + done})`,
      );
    }
    done += bytesRead;
  }
};

const toModelFileError = (path: string, error: NodeJS.ErrnoException): Error => {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
    return new ModelFileError(
      'not_found',
      `${path}: no such file; name a GGUF file or a model folder, or download a model with the pull command`,
    );
  }
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new ModelFileError(
      'unreadable',
      `${path}: not allowed to read it; check the file's owner and mode`,
    );
  }
  return new ModelFileError('unreadable', `${path}: cannot read the file (${error.message})`);
};
