/** Model files at a URL in a browser: cached in the private file system, read by ranges, or downloaded as a whole. */
import { type ByteSource, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { chunksOf } from './body-chunks.ts';
import { blobSource } from './browser-files.ts';
import { Attempts } from './attempts.ts';
import type { HttpOptions } from './http-file.ts';
import { type Keeper, keeper, type KeepOptions } from './kept-models.ts';
import { openIfThere, webFiles } from './web-folder.ts';

type OnBytes = KeepOptions['onBytes'];

/**
 * Downloads files into the private file system first. Call `finish` after the model was loaded, or `drop` if the
 * content is not a model.
 */
export async function keptFiles(
  url: string,
  options: KeepOptions,
): Promise<{ files: ModelFiles } & Pick<Keeper, 'finish' | 'drop'>> {
  const { open, ...ends } = await keeper(url, options);
  return { files: { ...(await webFiles(url, {}, open)), remote: false }, ...ends };
}

/** Reads ranges on demand. From a server without range support it downloads the whole file once. */
export const streamedFiles = (
  url: string,
  onBytes: OnBytes,
  options: HttpOptions = {},
): Promise<ModelFiles> =>
  webFiles(url, options, async (file) => {
    try {
      return await openIfThere(file, options);
    } catch (error) {
      if (error instanceof ModelFileError && error.code === 'no_ranges')
        return await openWhole(file, onBytes, options);
      throw error;
    }
  });

/** Downloads whole files, which the browser holds while they are used. */
export const wholeFiles = async (
  url: string,
  onBytes: OnBytes,
  options: HttpOptions = {},
): Promise<ModelFiles> => ({
  ...(await webFiles(url, {}, (file) => openWhole(file, onBytes, options))),
  remote: false,
});

async function openWhole(
  url: string,
  onBytes: OnBytes,
  options: HttpOptions,
): Promise<ByteSource | undefined> {
  const once = { idleMs: 30_000, ...options, attempts: 1, retryDelayMs: 0 };
  const { signal, alive, rest } = new Attempts(() => url, once).begin();
  try {
    return await receiveWhole(url, onBytes, { signal, alive });
  } finally {
    rest();
  }
}

async function receiveWhole(
  url: string,
  onBytes: OnBytes,
  { signal, alive }: { signal: AbortSignal; alive: () => void },
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
    for await (const bytes of chunksOf(response.body)) {
      alive();
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
