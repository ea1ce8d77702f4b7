import { formatBytes, ModelFileError } from '../engine/index.ts';
import { sleep } from '../util/sleep.ts';
import { type AttemptOptions, Attempts } from './attempts.ts';
import { asInterruption, Interruption, transientStatuses } from './interruption.ts';
import { readChunks } from './body-chunks.ts';
import { isQuotaError, type StorageEstimate, type WriteHandle, writeFully } from './browser-storage.ts';
import type { IdleTimeout } from './idle-limit.ts';

/** Version of a file, as far as the server's headers identify it. */
export interface Version {
  readonly etag?: string;
  readonly modified?: string;
  /** Size of the whole file. */
  readonly bytes?: number;
}

export interface DownloadOptions extends Partial<AttemptOptions> {
  readonly signal?: AbortSignal;
  /** Storage estimate; absent if the browser does not report it. */
  readonly room?: () => Promise<StorageEstimate>;
  /** Called with the version of the content before its first byte is written. */
  readonly onVersion: (version: Version) => void | Promise<void>;
  readonly onBytes: (done: number, total: number | undefined) => void;
}

const defaults = { attempts: 5, retryDelayMs: 300, idleMs: 30_000 };
/** Bytes written between two flushes. */
const flushBytes = 64 << 20;

/**
 * Downloads a file into `handle`. Resumes an earlier attempt if the server still has the same version.
 * @param partial version of the bytes that `handle` already has
 * @returns false if the server has no such file
 * @throws ModelFileError `forbidden`, `unreadable`, `quota_exceeded`; received bytes are kept
 */
export async function download(
  url: string,
  handle: WriteHandle,
  partial: Version | undefined,
  options: DownloadOptions,
): Promise<boolean> {
  const attempts = new Attempts(() => url, { ...defaults, ...options });
  let version = partial;
  let furthestBytes = handle.getSize();
  for (;;) {
    const before = handle.getSize();
    const limit = attempts.startAttempt();
    let waitMs: number | undefined;
    try {
      const answer = await requestRest(url, before, version, { limit, signal: options.signal });
      if (answer === 'missing') return false;
      if (answer === 'whole') return true;
      if (answer === 'other') {
        // The server has another version or does not support ranges: start from zero.
        handle.truncate(0);
        version = undefined;
        continue;
      }
      version = answer.version;
      await options.onVersion(version);
      await receiveBody(url, answer, handle, { ...options, limit });
      return true;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof Interruption)) throw error;
      waitMs = attempts.recordFailure(error, handle.getSize() - furthestBytes);
      furthestBytes = Math.max(furthestBytes, handle.getSize());
      if (waitMs === undefined) throw interruptedError(url, handle.getSize(), version, error);
    } finally {
      // Also cancels an unread response body.
      limit.abort();
    }
    await sleep(waitMs, options.signal);
  }
}

interface Answer {
  readonly response: Response;
  readonly version: Version;
  /** Position of its first byte in the file. */
  readonly at: number;
}

/** Requests the missing bytes. */
async function requestRest(
  url: string,
  at: number,
  partial: Version | undefined,
  { limit, signal }: { limit: IdleTimeout; signal: AbortSignal | undefined },
): Promise<Answer | 'missing' | 'whole' | 'other'> {
  if (at > 0 && partial?.bytes === undefined) return 'other';
  if (at > 0 && partial?.bytes === at) return 'whole';
  try {
    const response = await fetch(url, {
      // Not `If-Range`: a cross-origin server would have to allow this header.
      ...(at > 0 ? { headers: { range: `bytes=${at}-` } } : {}),
      cache: 'no-store',
      signal: signal ? AbortSignal.any([signal, limit.signal]) : limit.signal,
    });
    const kind = classifyResponse(url, response, at, partial);
    return typeof kind === 'string' ? kind : { response, ...kind };
  } catch (error) {
    throw error instanceof ModelFileError ? error : asInterruption(error);
  }
}

function classifyResponse(
  url: string,
  response: Response,
  at: number,
  partial: Version | undefined,
): Pick<Answer, 'version' | 'at'> | 'missing' | 'other' {
  const { status } = response;
  if (status === 404 || status === 410) return 'missing';
  if (status === 401 || status === 403) {
    const why = `the server refuses access (HTTP ${status}); check the address and whether it needs a signature`;
    throw new ModelFileError('forbidden', `${url}: ${why}`);
  }
  if (transientStatuses.has(status)) throw new Interruption(`HTTP ${status}`);
  if (status === 416 && at > 0) return 'other';
  const version = versionOf(response, at);
  if (status === 200) return { version, at: 0 };
  if (status !== 206 || at === 0) {
    throw new ModelFileError(
      'unreadable',
      `${url}: the server answered with HTTP ${status}; check the address`,
    );
  }
  // This header may be hidden in cross-origin responses.
  const first = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  const continues = first === undefined || Number(first) === at;
  return continues && partial && isSame(partial, version) ? { version, at } : 'other';
}

function versionOf({ headers, status }: Response, at: number): Version {
  const etag = headers.get('etag') ?? undefined;
  const modified = headers.get('last-modified') ?? undefined;
  const length = Number(headers.get('content-length') ?? Number.NaN);
  const range = /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1];
  // The length of a compressed body is not the size of the file.
  const hasLength = Number.isFinite(length) && !headers.has('content-encoding');
  const countedBytes = hasLength ? (status === 206 ? at : 0) + length : undefined;
  const bytes = status === 206 && range !== undefined ? Number(range) : countedBytes;
  return {
    ...(etag === undefined ? {} : { etag }),
    ...(modified === undefined ? {} : { modified }),
    ...(bytes === undefined ? {} : { bytes }),
  };
}

/** Only strong ETags identify bytes. A weak one may change when only the delivery changes. */
const isStrong = (etag: string | undefined): boolean => etag !== undefined && !etag.startsWith('W/');

const isSame = (a: Version, b: Version): boolean =>
  a.bytes === b.bytes &&
  (isStrong(a.etag) && isStrong(b.etag) ? a.etag === b.etag : a.modified === b.modified);

async function receiveBody(
  url: string,
  { response, version, at }: Answer,
  handle: WriteHandle,
  options: DownloadOptions & { readonly limit: IdleTimeout },
): Promise<void> {
  let done = at;
  let flushed = at;
  try {
    handle.truncate(at);
    await assertQuota(url, done, version.bytes, options.room);
    options.onBytes(done, version.bytes);
    for await (const bytes of readChunks(response.body)) {
      options.limit.reset();
      writeFully(handle, bytes, done);
      done += bytes.length;
      if (done - flushed >= flushBytes) {
        handle.flush();
        flushed = done;
      }
      options.onBytes(done, version.bytes);
    }
    handle.flush();
  } catch (error) {
    if (error instanceof ModelFileError) throw error;
    if (isQuotaError(error)) throw await quotaRefusedError(url, done, version.bytes, options.room);
    throw asInterruption(error);
  }
  // A resumed download must reach the end of the file.
  if (at > 0 && version.bytes !== undefined && done < version.bytes)
    throw new Interruption('the response was cut short');
}

/** Fails before the download if the file exceeds the storage quota. */
async function assertQuota(
  url: string,
  done: number,
  total: number | undefined,
  room: DownloadOptions['room'],
): Promise<void> {
  const { quota, usage = 0 } = (await room?.()) ?? {};
  if (total === undefined || quota === undefined || quota - usage >= total - done) return;
  const left = `${formatBytes(Math.max(0, quota - usage))} are left of this site's storage quota of ${formatBytes(quota)}`;
  throw quotaError(
    url,
    `${formatBytes(total - done)} of ${formatBytes(total)} must still be downloaded, but ${left}`,
  );
}

/** Error for a write that the browser refused. The storage estimate beforehand is not reliable. */
async function quotaRefusedError(
  url: string,
  done: number,
  total: number | undefined,
  room: DownloadOptions['room'],
): Promise<ModelFileError> {
  const { quota, usage = 0 } = (await room?.().catch(() => undefined)) ?? {};
  const of = total === undefined ? '' : ` of ${formatBytes(total)}`;
  const estimateText =
    quota === undefined
      ? ''
      : ` (it reports a quota of ${formatBytes(quota)}, ${formatBytes(usage)} of it used)`;
  return quotaError(url, `the browser refused to store more than ${formatBytes(done)}${of}${estimateText}`);
}

const quotaError = (url: string, what: string): ModelFileError =>
  new ModelFileError(
    'quota_exceeded',
    `${url}: ${what}. Delete cached models (forgetModel), free disk space, or load the model without ` +
      'caching it (cache: false)',
  );

function interruptedError(
  url: string,
  done: number,
  version: Version | undefined,
  cause: Error,
): ModelFileError {
  const of = version?.bytes === undefined ? '' : ` of ${formatBytes(version.bytes)}`;
  const kept =
    done > 0
      ? `the download was interrupted after ${formatBytes(done)}${of} (${cause.message}); load the model again to resume`
      : `no response (${cause.message}); check the address and the network, and that the server allows pages of other ` +
        'origins to read the file (CORS: Access-Control-Allow-Origin)';
  return new ModelFileError('unreadable', `${url}: ${kept}`);
}
