import { type ByteSource, checkRange, ModelFileError } from '../engine/index.ts';
import { chunksOf } from './body-chunks.ts';
import { idleLimit } from './idle-limit.ts';
import { pause } from './pause.ts';

export interface HttpOptions {
  /** Attempts in a row that bring no byte before we give up. */
  attempts?: number;
  /** Wait before the second attempt; doubles with each. */
  retryDelayMs?: number;
  /** A connection that brings nothing for so long is cut and tried again. */
  idleMs?: number;
  /**
   * As a list that is trusted tells it. Then it stands for the content, and ETags do not count: a hub's storage has its
   * own, which may change between two answers.
   */
  sizeBytes?: number;
  /** Sent with every request; a token among them is dropped when a redirect leaves for another server. */
  headers?: Readonly<Record<string, string>>;
}

type Settings = Required<Omit<HttpOptions, 'sizeBytes'>> & Pick<HttpOptions, 'sizeBytes'>;

const defaults: Settings = { attempts: 5, retryDelayMs: 250, idleMs: 30_000, headers: {} };

/** Answers that may go away by themselves. */
const passing = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A failure that another attempt may mend: a cut connection, a busy server. */
class Interruption extends Error {}

/**
 * A file on a web server, read by range requests; nothing is kept on disk.
 * @throws ModelFileError `not_found`, `forbidden`, `unreadable`, `changed`, or `no_ranges` when the server only sends whole files
 */
export const openUrl = async (url: string, options: HttpOptions = {}): Promise<ByteSource> => {
  const file = new RemoteFile(url, { ...defaults, ...options });
  await file.open();
  return file;
};

/** Of the whole file; undefined where the answer does not tell it. */
const totalOf = ({ headers }: Response): number | undefined => {
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

/** Only strong ETags say that bytes are the same or not; a weak one may change with nothing but how they are served. */
const isStrong = (etag: string | null): boolean => etag !== null && !etag.startsWith('W/');

const sameVersion = (a: Version, b: Version): boolean =>
  isStrong(a.etag) && isStrong(b.etag) ? a.etag === b.etag : a.modified === b.modified;

class RemoteFile implements ByteSource {
  readonly name: string;
  sizeBytes = 0;
  readonly #options: Settings;
  readonly #closed = new AbortController();
  /** What the first answer says of the content's version. */
  #version: Version = { etag: null, modified: null };

  constructor(url: string, options: Settings) {
    this.name = url;
    this.#options = options;
  }

  async open(): Promise<void> {
    // A wrong address should not take long to be told.
    await this.#retrying(Math.min(2, this.#options.attempts), async () => {
      const { response, end } = await this.#request(0, 0);
      end();
      const total = totalOf(response);
      if (total === undefined) {
        throw new ModelFileError(
          'no_ranges',
          `${this.name}: the server does not tell the file's size; download the file and name its path`,
        );
      }
      const { sizeBytes: listed = total } = this.#options;
      if (total !== listed) {
        throw new ModelFileError(
          'changed',
          `${this.name} has ${total} bytes, but is listed with ${listed}: it is another version; load it again`,
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
    while (progress.done < length) {
      await this.#retrying(this.#options.attempts, async () => {
        const before = progress.done;
        try {
          await this.#receive(offset + before, target.subarray(before), (bytes) => {
            progress.done += bytes;
          });
        } catch (error) {
          // What came is kept, and counts as success: the next request goes on from there.
          if (!(error instanceof Interruption) || progress.done === before) throw error;
        }
      });
    }
    return target;
  }

  async close(): Promise<void> {
    this.#closed.abort(new Error(`${this.name} was closed`));
  }

  async #receive(offset: number, target: Uint8Array, onBytes: (bytes: number) => void): Promise<void> {
    const { response, alive, end } = await this.#request(offset, offset + target.length - 1);
    try {
      if (!this.#isSame(response)) {
        throw new ModelFileError(
          'changed',
          `${this.name} changed on the server while it was read; load it again`,
        );
      }
      let done = 0;
      for await (const bytes of chunksOf(response.body)) {
        alive();
        if (done + bytes.length > target.length) {
          throw new ModelFileError(
            'no_ranges',
            `${this.name}: the server sent more than the range that was asked for`,
          );
        }
        target.set(bytes, done);
        done += bytes.length;
        onBytes(bytes.length);
      }
      if (done < target.length) throw new Interruption('the answer was cut short');
    } catch (error) {
      throw this.#asInterruption(error);
    } finally {
      end();
    }
  }

  /** Whether an answer is of the file that was opened, as far as it tells. */
  #isSame(response: Response): boolean {
    const total = totalOf(response);
    if (total !== undefined && total !== this.sizeBytes) return false;
    return this.#options.sizeBytes !== undefined || sameVersion(this.#version, versionOf(response));
  }

  /** Asks for bytes `first` to `last` inclusive. `alive` puts the idle limit off, `end` drops what was not read. */
  async #request(
    first: number,
    last: number,
  ): Promise<{ response: Response; alive: () => void; end: () => void }> {
    const { signal: idle, alive, end } = idleLimit(this.#options.idleMs);
    try {
      const response = await fetch(this.name, {
        headers: {
          ...this.#options.headers,
          range: `bytes=${first}-${last}`,
          'accept-encoding': 'identity',
        },
        signal: AbortSignal.any([this.#closed.signal, idle]),
      });
      this.#check(response, first);
      return { response, alive, end };
    } catch (error) {
      end();
      throw this.#asInterruption(error);
    }
  }

  #check(response: Response, first: number): void {
    const { status } = response;
    if (passing.has(status)) throw new Interruption(`HTTP ${status}`);
    if (status === 404 || status === 410) {
      throw new ModelFileError('not_found', `${this.name}: no such file (HTTP ${status}); check the address`);
    }
    if (status === 403) {
      throw new ModelFileError(
        'forbidden',
        `${this.name}: the server refuses access (HTTP 403); check the address, and whether it needs a signature`,
      );
    }
    if (status === 416) {
      throw new ModelFileError('truncated', `${this.name}: the file is empty or became shorter (HTTP 416)`);
    }
    if (status === 200) {
      throw new ModelFileError(
        'no_ranges',
        `${this.name}: the server ignores range requests; download the file and name its path`,
      );
    }
    if (status !== 206) {
      throw new ModelFileError(
        'unreadable',
        `${this.name}: the server answers HTTP ${status} ${response.statusText}`.trimEnd(),
      );
    }
    const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
    if (start !== String(first)) {
      throw new ModelFileError(
        'no_ranges',
        `${this.name}: the server answers another range than was asked for; download the file and name its path`,
      );
    }
  }

  /** Network errors of fetch become interruptions; our own errors and the closing stay what they are. */
  #asInterruption(error: unknown): unknown {
    if (this.#closed.signal.aborted) return this.#closed.signal.reason;
    if (error instanceof ModelFileError || error instanceof Interruption) return error;
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    return new Interruption(cause instanceof Error ? cause.message : String(cause));
  }

  async #retrying(attempts: number, attempt: () => Promise<void>): Promise<void> {
    for (let failures = 0; ; ) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof Interruption)) throw error;
        failures += 1;
        if (failures >= attempts) {
          throw new ModelFileError('unreadable', `${this.name}: ${error.message} (${failures} attempts)`);
        }
      }
      await pause(this.#options.retryDelayMs * 2 ** (failures - 1), this.#closed.signal);
    }
  }
}
