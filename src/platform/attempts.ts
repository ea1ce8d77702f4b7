/** Retry policy of downloads, and the notices about retries. */
import { type IdleTimeout, createIdleTimeout } from './idle-limit.ts';
import { type Interruption, Stalled } from './interruption.ts';

export interface AttemptOptions {
  /** Number of consecutive failed attempts before the download fails. */
  readonly attempts: number;
  /** Delay before the second attempt. It doubles with each further attempt. */
  readonly retryDelayMs: number;
  /** Time without data after which the connection is dropped and retried. */
  readonly idleMs: number;
  /** Time without data after which a notice is sent. */
  readonly noticeMs?: number | undefined;
  /** Receives messages for the waiting user: a connection without data, another attempt. */
  readonly onNotice?: ((message: string) => void) | undefined;
}

/**
 * A stalled connection that received less than this counts as failed. Otherwise a server that repeatedly sends a few
 * bytes and stalls would be retried forever.
 */
const minProgressBytes = 16 << 20;
const defaultNoticeMs = 10_000;

/** Counts the attempts of one download. */
export class Attempts {
  readonly #name: () => string;
  readonly #options: AttemptOptions;
  #failures = 0;

  /** @param name returns what is downloaded and its progress, for notices */
  constructor(name: () => string, options: AttemptOptions) {
    this.#name = name;
    this.#options = options;
  }

  /** Number of consecutive failed attempts. */
  get failures(): number {
    return this.#failures;
  }

  /** Starts the idle timeout of the next attempt. */
  startAttempt(): IdleTimeout {
    const { idleMs, noticeMs = defaultNoticeMs } = this.#options;
    return createIdleTimeout(idleMs, {
      afterMs: noticeMs,
      notify: () =>
        this.#notify(
          `no data for ${noticeMs / 1000} s; the connection is dropped after ${idleMs / 1000} s without any`,
        ),
    });
  }

  /**
   * Counts a failed attempt.
   * @param receivedBytes bytes that it received beyond all earlier attempts
   * @returns delay before the next attempt in ms; undefined if this was the last one
   */
  recordFailure(error: Interruption, receivedBytes: number): number | undefined {
    const { attempts, retryDelayMs } = this.#options;
    const madeProgress = receivedBytes >= (error instanceof Stalled ? minProgressBytes : 1);
    this.#failures = madeProgress ? 1 : this.#failures + 1;
    if (this.#failures >= attempts) return undefined;
    if (error instanceof Stalled) this.#notify(`${error.message}; connecting again`);
    return retryDelayMs * 2 ** (this.#failures - 1);
  }

  #notify(what: string): void {
    const attempt = `attempt ${this.#failures + 1} of ${this.#options.attempts}`;
    this.#options.onNotice?.(`${this.#name()}: ${what} (${attempt})`);
  }
}
