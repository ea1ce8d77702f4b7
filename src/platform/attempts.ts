/** When a download tries again and when it gives up, and what is said of that. */
import { type IdleLimit, idleLimit } from './idle-limit.ts';
import { type Interruption, Stalled } from './interruption.ts';

export interface AttemptOptions {
  /** Attempts in a row that bring too little until we give up. */
  readonly attempts: number;
  /** Wait before the second attempt; doubles with each. */
  readonly retryDelayMs: number;
  /** A connection that brings nothing for so long is dropped and tried again. */
  readonly idleMs: number;
  /** A connection that brings nothing for so long is told of. */
  readonly noticeMs?: number | undefined;
  /** What a person who waits should know: a connection without data, another attempt after it. */
  readonly onNotice?: ((message: string) => void) | undefined;
}

/**
 * A connection that stalls after less than this has failed, whatever it brought: otherwise a server that sends a few
 * bytes and stalls, again and again, would never be given up.
 */
const workedBytes = 16 << 20;
const usualNoticeMs = 10_000;

/** The attempts at one download. */
export class Attempts {
  readonly #name: () => string;
  readonly #options: AttemptOptions;
  #failures = 0;

  /** @param name of what is downloaded, and how far it is, for notices */
  constructor(name: () => string, options: AttemptOptions) {
    this.#name = name;
    this.#options = options;
  }

  /** In a row. */
  get failures(): number {
    return this.#failures;
  }

  /** The idle limit of the next attempt. */
  begin(): IdleLimit {
    const { idleMs, noticeMs = usualNoticeMs } = this.#options;
    return idleLimit(idleMs, {
      afterMs: noticeMs,
      tell: () =>
        this.#tell(
          `no data for ${noticeMs / 1000} s; the connection is dropped after ${idleMs / 1000} s without any`,
        ),
    });
  }

  /**
   * Counts an attempt that failed.
   * @param receivedBytes what it brought that no attempt before it had
   * @returns how long to wait before the next one; undefined when it was the last
   */
  failed(error: Interruption, receivedBytes: number): number | undefined {
    const { attempts, retryDelayMs } = this.#options;
    const worked = receivedBytes >= (error instanceof Stalled ? workedBytes : 1);
    this.#failures = worked ? 1 : this.#failures + 1;
    if (this.#failures >= attempts) return undefined;
    if (error instanceof Stalled) this.#tell(`${error.message}; connecting again`);
    return retryDelayMs * 2 ** (this.#failures - 1);
  }

  #tell(what: string): void {
    const attempt = `attempt ${this.#failures + 1} of ${this.#options.attempts}`;
    this.#options.onNotice?.(`${this.#name()}: ${what} (${attempt})`);
  }
}
