import { shortenName } from '../label-names.ts';

interface ExportResult {
  /** 0 means success. */
  readonly code: number;
  readonly error?: Error;
}
interface Exporter<Items> {
  export(items: Items, done: (result: ExportResult) => void): void;
}

/** Minimum interval between two notices about the same signal. */
const noticeIntervalMs = 600_000;

/** Notifies the operator that exports of a signal fail, at most once per `noticeIntervalMs`. */
export class ExportFailureNotifier {
  readonly #signal: string;
  readonly #origin: string;
  readonly #onNotice: (message: string) => void;
  #lastNoticeAt = -Infinity;

  constructor(signal: string, url: string, onNotice: (message: string) => void) {
    this.#signal = signal;
    // Only the origin: some collectors take a key in the path or the query.
    this.#origin = new URL(url).origin;
    this.#onNotice = onNotice;
  }

  /** Wraps an exporter to observe its results. An exception counts as a failure. */
  watch<Items, One extends Exporter<Items>>(exporter: One): One {
    const send = exporter.export.bind(exporter);
    exporter.export = (items, done) => {
      const onResult = (result: ExportResult) => {
        if (result.code !== 0) this.#notify(result.error);
        done(result);
      };
      try {
        send(items, onResult);
      } catch (error) {
        onResult({ code: 1, error: error instanceof Error ? error : new Error(String(error)) });
      }
    };
    return exporter;
  }

  #notify(error: (Error & { code?: unknown }) | undefined): void {
    const now = performance.now();
    if (now - this.#lastNoticeAt < noticeIntervalMs) return;
    this.#lastNoticeAt = now;
    const reason = [error?.code, error?.message]
      .filter((part) => part !== undefined && part !== '')
      .join(' ');
    this.#onNotice(
      `telemetry: ${this.#signal} cannot be sent to ${this.#origin} (${shortenName(reason || 'no reason given')}); ` +
        'they are dropped until it works again',
    );
  }
}
