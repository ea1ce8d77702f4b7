/** Model files at a URL in a browser: cached in the private file system, read by ranges, or downloaded as a whole. */
import { type ByteSource, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { readChunks } from './body-chunks.ts';
import { blobSource } from './browser-files.ts';
import { Attempts } from './attempts.ts';
import type { HttpOptions } from './http-file.ts';
import { type ModelCacheEntry, openModelCacheEntry, type ModelCacheOptions } from './model-cache.ts';
import { openIfExists, webFiles } from './web-folder.ts';

type OnBytes = ModelCacheOptions['onBytes'];

/**
 * Downloads files into the private file system first. Call `finish` after the model was loaded, or `drop` if the
 * content is not a model.
 */
export async function cachedFiles(
  url: string,
  options: ModelCacheOptions,
): Promise<{ files: ModelFiles } & Pick<ModelCacheEntry, 'finish' | 'drop'>> {
  const { open, ...lifecycle } = await openModelCacheEntry(url, options);
  return { files: { ...(await webFiles(url, {}, open)), remote: false }, ...lifecycle };
}

/** Reads ranges on demand. From a server without range support it downloads the whole file once. */
export const streamedFiles = (
  url: string,
  onBytes: OnBytes,
  options: HttpOptions = {},
): Promise<ModelFiles> =>
  webFiles(url, options, async (file) => {
    try {
      return await openIfExists(file, options);
    } catch (error) {
      if (error instanceof ModelFileError && error.code === 'no_ranges')
        return await downloadWhole(file, onBytes, options);
      throw error;
    }
  });

/** Downloads whole files, which the browser holds while they are used. */
export const wholeFiles = async (
  url: string,
  onBytes: OnBytes,
  options: HttpOptions = {},
): Promise<ModelFiles> => ({
  ...(await webFiles(url, {}, (file) => downloadWhole(file, onBytes, options))),
  remote: false,
});

async function downloadWhole(
  url: string,
  onBytes: OnBytes,
  options: HttpOptions,
): Promise<ByteSource | undefined> {
  const singleAttempt = { idleMs: 30_000, ...options, attempts: 1, retryDelayMs: 0 };
  const { signal, reset, stop } = new Attempts(() => url, singleAttempt).startAttempt();
  try {
    return await receiveBlob(url, onBytes, { signal, reset });
  } finally {
    stop();
  }
}

async function receiveBlob(
  url: string,
  onBytes: OnBytes,
  { signal, reset }: { signal: AbortSignal; reset: () => void },
): Promise<ByteSource | undefined> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch (error) {
    const why = errorMessage(error);
    throw new ModelFileError('unreadable', `${url}: no response (${why}); check the address and the network`);
  }
  const { status, headers } = response;
  if (status === 404 || status === 410) return undefined;
  if (!response.ok) throw new ModelFileError('unreadable', `${url}: the server answered with HTTP ${status}`);
  const length = headers.get('content-length');
  const total = length === null || headers.has('content-encoding') ? undefined : Number(length);
  const parts: BlobPart[] = [];
  let done = 0;
  onBytes(url, done, total);
  try {
    for await (const bytes of readChunks(response.body)) {
      reset();
      parts.push(bytes as Uint8Array<ArrayBuffer>);
      done += bytes.length;
      onBytes(url, done, total);
    }
  } catch (error) {
    const why = errorMessage(error);
    throw new ModelFileError(
      'unreadable',
      `${url}: the download was interrupted after ${done} bytes (${why}); load it again`,
    );
  }
  return blobSource(new Blob(parts), url);
}
