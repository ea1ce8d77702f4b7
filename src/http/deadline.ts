import { HttpError } from './error.ts';

/** The time limit that a client set for its request. */
export class Deadline {
  readonly #expired = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  /** Aborted with a 408 when the time is over. */
  get signal(): AbortSignal {
    return this.#expired.signal;
  }

  start(timeoutMs: number | undefined): void {
    if (timeoutMs === undefined) return;
    this.#timer = setTimeout(() => this.#expired.abort(deadlineError(timeoutMs)), timeoutMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** Another attempt would have as little time. */
const deadlineError = (timeoutMs: number) =>
  new HttpError(
    408,
    'deadline_exceeded',
    `The request was not answered within the ${timeoutMs / 1000} s of its header x-request-timeout.`,
    { headers: { 'x-should-retry': 'false' } },
  );
