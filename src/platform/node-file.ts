import { type FileHandle, open } from 'node:fs/promises';
import { ModelFileError, type ByteSource } from '../engine/index.ts';

/** One read of the operating system takes less than 2^31 bytes. */
const mostBytesPerRead = 1 << 30;

/** @throws ModelFileError `not_found` or `unreadable` */
export const openFile = async (path: string): Promise<ByteSource> => {
  const handle = await open(path).catch((error: NodeJS.ErrnoException) => {
    throw explain(path, error);
  });
  const stat = await handle.stat();
  if (!stat.isFile()) {
    await handle.close();
    const what = stat.isDirectory() ? 'a directory, not a file' : 'not a regular file';
    throw new ModelFileError('unreadable', `${path} is ${what}`);
  }
  const sizeBytes = stat.size;
  return {
    name: path,
    sizeBytes,
    async read(offset, length, into) {
      if (offset < 0 || length < 0 || offset + length > sizeBytes) {
        throw new RangeError(
          `${path}: bytes ${offset} to ${offset + length} leave the file (${sizeBytes} bytes)`,
        );
      }
      const target = into ? into.subarray(0, length) : new Uint8Array(length);
      if (target.length < length)
        throw new RangeError(`${path}: ${length} bytes do not fit into ${target.length}`);
      await fill(handle, { path, target, offset });
      return target;
    },
    close: () => handle.close(),
  };
};

const fill = async (
  handle: FileHandle,
  { path, target, offset }: { path: string; target: Uint8Array; offset: number },
): Promise<void> => {
  for (let done = 0; done < target.length; ) {
    const part = Math.min(target.length - done, mostBytesPerRead);
    const { bytesRead } = await handle
      .read(target, done, part, offset + done)
      .catch((error: NodeJS.ErrnoException) => {
        throw explain(path, error);
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

const explain = (path: string, error: NodeJS.ErrnoException): Error => {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
    return new ModelFileError(
      'not_found',
      `${path}: no such file; name a GGUF file or the folder of a model, or fetch one with the pull command`,
    );
  }
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    return new ModelFileError(
      'unreadable',
      `${path}: not allowed to read it; check the file's owner and mode`,
    );
  }
  return new ModelFileError('unreadable', `${path}: cannot be read (${error.message})`);
};
