import { type ByteSource, checkRange, ModelFileError } from '../engine/index.ts';
import { sleep } from '../util/sleep.ts';
import { type AttemptOptions, Attempts } from './attempts.ts';
import { asInterruption, Interruption, transientStatuses } from './interruption.ts';
import { readChunks } from './body-chunks.ts';
import type { IdleTimeout } from './idle-limit.ts';

export interface HttpOptions extends Partial<AttemptOptions> {
  /**
   * Size from a trusted file list. If set, ETags are ignored, because a hub's storage may change them between two
   * responses.
   */
  sizeBytes?: number;
  /** Headers of every request. `fetch` drops an authorization header on a redirect to another server. */
  headers?: Readonly<Record<string, string>>;
}

type ResolvedHttpOptions = AttemptOptions & HttpOptions;

/** Advice in the messages of `no_ranges`, for the command line. Pages replace it. */
export const useDownloadedFile = 'download the file and use its path';

const defaults: ResolvedHttpOptions = { attempts: 5, retryDelayMs: 250, idleMs: 30_000, headers: {} };

/**
 * Opens a file on a web server for range requests. Nothing is written to disk.
 * @throws ModelFileError `not_found`, `forbidden`, `unreadable`, `changed`, or `no_ranges` when the server only sends
 * whole files
 */
export const openHttpFile = async (url: string, options: HttpOptions = {}): Promise<ByteSource> => {
  const file = new RemoteFile(url, { ...defaults, ...options });
  await file.open();
  return file;
};

/** Size of the whole file; undefined if the response does not have it. */
const totalSize = ({ headers }: Response): number | undefined => {
  const total = /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1];
  return total === undefined ? undefined : Number(total);
};

interface Version {
  readonly etag: string | null;
  readonly modified: string | null;
}

const versionOf = ({ headers }: Response): Version => ({
  etag: headers.get('etag'),
  modified: headers.get('last-modified'),
});

/** Only strong ETags identify bytes. A weak one may change when only the delivery changes. */
const isStrong = (etag: string | null): boolean => etag !== null && !etag.startsWith('W/');

const isSameVersion = (a: Version, b: Version): boolean =>
  isStrong(a.etag) && isStrong(b.etag) ? a.etag === b.etag : a.modified === b.modified;

class RemoteFile implements ByteSource {
  readonly name: string;
  sizeBytes = 0;
  readonly #options: ResolvedHttpOptions;
  readonly #closed = new AbortController();
  /** Version of the content in the first response. */
  #version: Version = { etag: null, modified: null };

  constructor(url: string, options: ResolvedHttpOptions) {
    this.name = url;
    this.#options = options;
  }

  async open(): Promise<void> {
    // Fewer attempts, so that a wrong address fails quickly.
    const attempts = Math.min(2, this.#options.attempts);
    await this.#withRetries({ ...this.#options, attempts }, undefined, async (limit) => {
      const response = await this.#request(0, 0, limit);
      const total = totalSize(response);
      if (total === undefined) {
        throw new ModelFileError(
          'no_ranges',
          `${this.name}: the server does not report the file's size; ${useDownloadedFile}`,
        );
      }
      const { sizeBytes: listed = total } = this.#options;
      if (total !== listed) {
        throw new ModelFileError(
          'changed',
          `${this.name} has ${total} bytes, but the list says ${listed}; it is another version, load it again`,
        );
      }
      this.sizeBytes = total;
      this.#version = versionOf(response);
    });
  }

  async read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    checkRange(this, { offset, length, into });
    const target = into ? into.subarray(0, length) : new Uint8Array(length);
    const progress = { done: 0 };
    if (length === 0) return target;
    // Received bytes are kept; the next request continues after them.
    await this.#withRetries(this.#options, progress, (limit) =>
      this.#receive(offset + progress.done, target.subarray(progress.done), limit, (bytes) => {
        progress.done += bytes;
      }),
    );
    return target;
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error(`${this.name} was closed`));
  }

  async #receive(
    offset: number,
    target: Uint8Array,
    limit: IdleTimeout,
    onBytes: (bytes: number) => void,
  ): Promise<void> {
    const response = await this.#request(offset, offset + target.length - 1, limit);
    try {
      if (!this.#isSame(response)) {
        throw new ModelFileError(
          'changed',
          `${this.name} changed on the server while it was being read; load it again`,
        );
      }
      let done = 0;
      for await (const bytes of readChunks(response.body)) {
        limit.reset();
        if (done + bytes.length > target.length) {
          throw new ModelFileError(
            'no_ranges',
            `${this.name}: the server sent more than the requested range`,
          );
        }
        target.set(bytes, done);
        done += bytes.length;
        onBytes(bytes.length);
      }
      if (done < target.length) throw new Interruption('the response was cut short');
    } catch (error) {
      throw this.#asInterruption(error);
    }
  }

  /** Whether a response is of the opened version of the file, as far as its headers show. */
  #isSame(response: Response): boolean {
    const total = totalSize(response);
    if (total !== undefined && total !== this.sizeBytes) return false;
    return this.#options.sizeBytes !== undefined || isSameVersion(this.#version, versionOf(response));
  }

  /** Requests bytes `first` to `last`, inclusive. */
  async #request(first: number, last: number, limit: IdleTimeout): Promise<Response> {
    try {
      const response = await fetch(this.name, {
        headers: {
          ...this.#options.headers,
          range: `bytes=${first}-${last}`,
          'accept-encoding': 'identity',
        },
        signal: AbortSignal.any([this.#closed.signal, limit.signal]),
      });
      this.#checkStatus(response, first);
      return response;
    } catch (error) {
      throw this.#asInterruption(error);
    }
  }

  #checkStatus(response: Response, first: number): void {
    const { status } = response;
    if (transientStatuses.has(status)) throw new Interruption(`HTTP ${status}`);
    if (status === 404 || status === 410) {
      throw new ModelFileError('not_found', `${this.name}: no such file (HTTP ${status}); check the address`);
    }
    if (status === 403) {
      throw new ModelFileError(
        'forbidden',
        `${this.name}: the server refuses access (HTTP 403); check the address and whether it needs a signature`,
      );
    }
    if (status === 416) {
      throw new ModelFileError('truncated', `${this.name}: the file is empty or became shorter (HTTP 416)`);
    }
    if (status === 200) {
      throw new ModelFileError(
        'no_ranges',
        `${this.name}: the server ignores range requests; ${useDownloadedFile}`,
      );
    }
    if (status !== 206) {
      throw new ModelFileError(
        'unreadable',
        `${this.name}: the server answered with HTTP ${status} ${response.statusText}`.trimEnd(),
      );
    }
    const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
    if (start !== String(first)) {
      throw new ModelFileError(
        'no_ranges',
        `${this.name}: the server sent another range than requested; ${useDownloadedFile}`,
      );
    }
  }

  /** Converts network errors to `Interruption`. A `ModelFileError` and the reason of closing stay unchanged. */
  #asInterruption(error: unknown): unknown {
    if (this.#closed.signal.aborted) return this.#closed.signal.reason;
    return error instanceof ModelFileError ? error : asInterruption(error);
  }

  /** @param progress progress of the attempts, if each continues where the last one stopped */
  async #withRetries(
    options: AttemptOptions,
    progress: { readonly done: number } | undefined,
    attempt: (limit: IdleTimeout) => Promise<void>,
  ): Promise<void> {
    const attempts = new Attempts(() => this.name, options);
    for (;;) {
      const before = progress?.done ?? 0;
      const limit = attempts.startAttempt();
      let waitMs: number | undefined;
      try {
        return await attempt(limit);
      } catch (error) {
        if (!(error instanceof Interruption)) throw error;
        waitMs = attempts.recordFailure(error, (progress?.done ?? 0) - before);
        if (waitMs === undefined) {
          const { failures } = attempts;
          throw new ModelFileError('unreadable', `${this.name}: ${error.message} (${failures} attempts)`);
        }
      } finally {
        // Also cancels an unread response body.
        limit.abort();
      }
      await sleep(waitMs, this.#closed.signal);
    }
  }
}
