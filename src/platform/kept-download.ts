import { formatBytes, ModelFileError } from '../engine/index.ts';
import { pause } from '../util/pause.ts';
import { type AttemptOptions, Attempts } from './attempts.ts';
import { asInterruption, Interruption, transientStatuses } from './interruption.ts';
import { chunksOf } from './body-chunks.ts';
import { isFull, type StorageRoom, type WriteHandle, writeWhole } from './browser-storage.ts';
import type { IdleLimit } from './idle-limit.ts';

/** What tells one version of a file from another, as far as its server says it. */
export interface Version {
  readonly etag?: string;
  readonly modified?: string;
  /** Of the whole file. */
  readonly bytes?: number;
}

export interface DownloadOptions extends Partial<AttemptOptions> {
  readonly signal?: AbortSignal;
  /** What may still be kept; absent where the browser does not tell. */
  readonly room?: () => Promise<StorageRoom>;
  /** What comes is of this version; told before its first byte is written. */
  readonly onVersion: (version: Version) => void | Promise<void>;
  readonly onBytes: (done: number, total: number | undefined) => void;
}

const defaults = { attempts: 5, retryDelayMs: 300, idleMs: 30_000 };
/** Written without being forced to the disk. */
const flushBytes = 64 << 20;

/**
 * Brings a file into `handle`, from where an earlier attempt broke off if the server still has the same version.
 * @param begun the version that what lies there already is of
 * @returns false when the server has no such file
 * @throws ModelFileError `forbidden`, `unreadable`, `quota_exceeded`; what came is kept
 */
export async function download(
  url: string,
  handle: WriteHandle,
  begun: Version | undefined,
  options: DownloadOptions,
): Promise<boolean> {
  const attempts = new Attempts(() => url, { ...defaults, ...options });
  let version = begun;
  let furthest = handle.getSize();
  for (;;) {
    const before = handle.getSize();
    const limit = attempts.begin();
    let waitMs: number | undefined;
    try {
      const answer = await ask(url, before, version, { limit, signal: options.signal });
      if (answer === 'missing') return false;
      if (answer === 'whole') return true;
      if (answer === 'other') {
        // The server has another version, or gives no parts: what lies there is of no use.
        handle.truncate(0);
        version = undefined;
        continue;
      }
      version = answer.version;
      await options.onVersion(version);
      await receive(url, answer, handle, { ...options, limit });
      return true;
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof Interruption)) throw error;
      waitMs = attempts.failed(error, handle.getSize() - furthest);
      furthest = Math.max(furthest, handle.getSize());
      if (waitMs === undefined) throw brokenOff(url, handle.getSize(), version, error);
    } finally {
      // Also drops what was not read.
      limit.end();
    }
    await pause(waitMs, options.signal);
  }
}

interface Answer {
  readonly response: Response;
  readonly version: Version;
  /** Where its first byte belongs. */
  readonly at: number;
}

/** Asks for what is missing. */
async function ask(
  url: string,
  at: number,
  begun: Version | undefined,
  { limit, signal }: { limit: IdleLimit; signal: AbortSignal | undefined },
): Promise<Answer | 'missing' | 'whole' | 'other'> {
  if (at > 0 && begun?.bytes === undefined) return 'other';
  if (at > 0 && begun?.bytes === at) return 'whole';
  try {
    const response = await fetch(url, {
      // Not `If-Range`: servers of other origins would have to allow it first.
      ...(at > 0 ? { headers: { range: `bytes=${at}-` } } : {}),
      cache: 'no-store',
      signal: signal ? AbortSignal.any([signal, limit.signal]) : limit.signal,
    });
    const kind = judge(url, response, at, begun);
    return typeof kind === 'string' ? kind : { response, ...kind };
  } catch (error) {
    throw error instanceof ModelFileError ? error : asInterruption(error);
  }
}

function judge(
  url: string,
  response: Response,
  at: number,
  begun: Version | undefined,
): Pick<Answer, 'version' | 'at'> | 'missing' | 'other' {
  const { status } = response;
  if (status === 404 || status === 410) return 'missing';
  if (status === 401 || status === 403) {
    const why = `the server refuses access (HTTP ${status}); check the address, and whether it needs a signature`;
    throw new ModelFileError('forbidden', `${url}: ${why}`);
  }
  if (transientStatuses.has(status)) throw new Interruption(`HTTP ${status}`);
  if (status === 416 && at > 0) return 'other';
  const version = versionOf(response, at);
  if (status === 200) return { version, at: 0 };
  if (status !== 206 || at === 0) {
    throw new ModelFileError('unreadable', `${url}: the server answers HTTP ${status}; check the address`);
  }
  // Other origins may hide this header.
  const first = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  const continues = first === undefined || Number(first) === at;
  return continues && begun && isSame(begun, version) ? { version, at } : 'other';
}

function versionOf({ headers, status }: Response, at: number): Version {
  const etag = headers.get('etag') ?? undefined;
  const modified = headers.get('last-modified') ?? undefined;
  const length = Number(headers.get('content-length') ?? Number.NaN);
  const range = /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1];
  // The length of what is compressed tells nothing.
  const isCounted = Number.isFinite(length) && !headers.has('content-encoding');
  const counted = isCounted ? (status === 206 ? at : 0) + length : undefined;
  const bytes = status === 206 && range !== undefined ? Number(range) : counted;
  return {
    ...(etag === undefined ? {} : { etag }),
    ...(modified === undefined ? {} : { modified }),
    ...(bytes === undefined ? {} : { bytes }),
  };
}

/** Only strong ETags say that bytes are the same; a weak one may change with nothing but how they are served. */
const isStrong = (etag: string | undefined): boolean => etag !== undefined && !etag.startsWith('W/');

const isSame = (a: Version, b: Version): boolean =>
  a.bytes === b.bytes &&
  (isStrong(a.etag) && isStrong(b.etag) ? a.etag === b.etag : a.modified === b.modified);

async function receive(
  url: string,
  { response, version, at }: Answer,
  handle: WriteHandle,
  options: DownloadOptions & { readonly limit: IdleLimit },
): Promise<void> {
  let done = at;
  let flushed = at;
  try {
    handle.truncate(at);
    await requireRoom(url, done, version.bytes, options.room);
    options.onBytes(done, version.bytes);
    for await (const bytes of chunksOf(response.body)) {
      options.limit.alive();
      writeWhole(handle, bytes, done);
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
    if (isFull(error)) throw await refused(url, done, version.bytes, options.room);
    throw asInterruption(error);
  }
  // The end of a part is where its file ends.
  if (at > 0 && version.bytes !== undefined && done < version.bytes)
    throw new Interruption('the answer was cut short');
}

/** Refuses what the browser will not keep before the first byte of it is fetched. */
async function requireRoom(
  url: string,
  done: number,
  total: number | undefined,
  room: DownloadOptions['room'],
): Promise<void> {
  const { quota, usage = 0 } = (await room?.()) ?? {};
  if (total === undefined || quota === undefined || quota - usage >= total - done) return;
  const left = `${formatBytes(Math.max(0, quota - usage))} are left of the ${formatBytes(quota)} that the browser lets this site keep`;
  throw noRoom(url, `${formatBytes(total - done)} of ${formatBytes(total)} are still to come, ${left}`);
}

/** Refused in the middle: what browsers say of their room beforehand need not be so. */
async function refused(
  url: string,
  done: number,
  total: number | undefined,
  room: DownloadOptions['room'],
): Promise<ModelFileError> {
  const { quota, usage = 0 } = (await room?.().catch(() => undefined)) ?? {};
  const of = total === undefined ? '' : ` of ${formatBytes(total)}`;
  const told =
    quota === undefined ? '' : ` (it speaks of ${formatBytes(quota)}, ${formatBytes(usage)} of them taken)`;
  return noRoom(url, `after ${formatBytes(done)}${of} the browser keeps no more${told}`);
}

const noRoom = (url: string, what: string): ModelFileError =>
  new ModelFileError(
    'quota_exceeded',
    `${url}: ${what}. Forget models that were kept earlier (forgetModel), free space on the disk, or load it without ` +
      'keeping it (cache: false)',
  );

function brokenOff(url: string, done: number, version: Version | undefined, cause: Error): ModelFileError {
  const of = version?.bytes === undefined ? '' : ` of ${formatBytes(version.bytes)}`;
  const kept =
    done > 0
      ? `broke off after ${formatBytes(done)}${of} (${cause.message}); what came is kept: load the model again to go on`
      : `nothing came (${cause.message}); check the address and the network, and that the server lets pages of other ` +
        'origins read the file (CORS: Access-Control-Allow-Origin)';
  return new ModelFileError('unreadable', `${url}: ${kept}`);
}
