import type { ChangeLog } from '../ledger/change-log.ts';

interface LoginFailuresOptions {
  readonly changeLog: Pick<ChangeLog, 'note'>;
  readonly onFault: (error: unknown) => void;
  /** Time in ms in which wrong tokens have one entry together. */
  readonly intervalMs?: number;
}

/**
 * Logs wrong tokens of the admin API in the log of changes. The first one has an entry of its own; those of the minute after it
 * have one together, so that somebody who tries many tokens cannot fill the database.
 */
export class LoginFailures {
  readonly #options: LoginFailuresOptions;
  #timer: NodeJS.Timeout | undefined;
  #attempts = 0;

  constructor(options: LoginFailuresOptions) {
    this.#options = options;
  }

  record(): void {
    this.#attempts += 1;
    if (this.#timer) return;
    this.#write();
    this.#timer = setInterval(() => {
      if (this.#attempts > 0) this.#write();
      else {
        clearInterval(this.#timer);
        this.#timer = undefined;
      }
    }, this.#options.intervalMs ?? 60_000).unref();
  }

  #write(): void {
    const { changeLog, onFault } = this.#options;
    const event = { subject: 'admin API', action: 'login refused', after: { attempts: this.#attempts } };
    this.#attempts = 0;
    changeLog.note(event).catch(onFault);
  }
}
