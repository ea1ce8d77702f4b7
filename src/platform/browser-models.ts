/** A model at an address, read by a page: kept in its private file system, by ranges, or as a whole. */
import { type ByteSource, ModelFileError, type ModelFiles } from '../engine/index.ts';
import { errorMessage } from '../util/error-message.ts';
import { chunksOf } from './body-chunks.ts';
import { blobSource } from './browser-files.ts';
import { Attempts } from './attempts.ts';
import type { HttpOptions } from './http-file.ts';
import { type Keeper, keeper, type KeepOptions } from './kept-models.ts';
import { openIfThere, webFiles } from './web-folder.ts';

type OnBytes = KeepOptions['onBytes'];

/** Brought into the private file system first. `finish` is for when the model was loaded, `drop` for when it is none. */
export async function keptFiles(
  url: string,
  options: KeepOptions,
): Promise<{ files: ModelFiles } & Pick<Keeper, 'finish' | 'drop'>> {
  const { open, ...ends } = await keeper(url, options);
  return { files: { ...(await webFiles(url, {}, open)), remote: false }, ...ends };
}

/** Ranges as they are needed; from servers that give none, the whole file once. */
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

/** As a whole, held by the browser as long as it is read. */
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
    throw new ModelFileError(
      'unreadable',
      `${url}: nothing came (${why}); check the address and the network`,
    );
  }
  const { status, headers } = response;
  if (status === 404 || status === 410) return undefined;
  if (!response.ok) throw new ModelFileError('unreadable', `${url}: the server answers HTTP ${status}`);
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
    throw new ModelFileError('unreadable', `${url}: broke off after ${done} bytes (${why}); load it again`);
  }
  return blobSource(new Blob(parts), url);
}
