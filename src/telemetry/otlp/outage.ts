import { shortName } from '../names.ts';

interface Result {
  /** 0: it arrived. */
  readonly code: number;
  readonly error?: Error;
}
interface Exporter<Items> {
  export(items: Items, done: (result: Result) => void): void;
}

/** A collector that comes and goes is no news each time. */
const quietMs = 600_000;

/** Tells an operator that a signal does not arrive: once, and again when it still, or anew, does not much later. */
export class Outage {
  readonly #signal: string;
  readonly #origin: string;
  readonly #onNotice: (message: string) => void;
  #toldAt = -Infinity;

  constructor(signal: string, url: string, onNotice: (message: string) => void) {
    this.#signal = signal;
    // Neither path nor query, where some collectors want a key.
    this.#origin = new URL(url).origin;
    this.#onNotice = onNotice;
  }

  /** The exporter, listened to. One that throws counts as one that failed. */
  watch<Items, One extends Exporter<Items>>(exporter: One): One {
    const send = exporter.export.bind(exporter);
    exporter.export = (items, done) => {
      const heard = (result: Result) => {
        if (result.code !== 0) this.#tell(result.error);
        done(result);
      };
      try {
        send(items, heard);
      } catch (error) {
        heard({ code: 1, error: error instanceof Error ? error : new Error(String(error)) });
      }
    };
    return exporter;
  }

  #tell(error: (Error & { code?: unknown }) | undefined): void {
    const now = performance.now();
    if (now - this.#toldAt < quietMs) return;
    this.#toldAt = now;
    const reason = [error?.code, error?.message]
      .filter((part) => part !== undefined && part !== '')
      .join(' ');
    this.#onNotice(
      `telemetry: ${this.#signal} do not arrive at ${this.#origin} (${shortName(reason || 'it gave no reason')}); ` +
        'they are dropped until they do',
    );
  }
}
