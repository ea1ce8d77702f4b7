import type { Tx } from '../../store/index.ts';
import { type Committer, isUnsure } from './committer.ts';
import {
  insertLine,
  isPiece,
  joined,
  lengthOf,
  type Line,
  type NewLine,
  nextSeqOf,
  place,
  type Place,
} from './lines.ts';

/** How long a text delta waits for more text. */
const patienceMs = 50;
/** Characters after which a text delta is written at once. */
const mostText = 16_384;

/** Writes one stream. An event gets its `seq` when it is written, so a failed write leaves no gap. */
export class StreamWriter<Event extends NewLine> {
  readonly stream: string;
  readonly #committer: Committer;
  readonly #onEnd: () => void;
  /** Position after the last durable event. */
  #place: Place;
  /** Position after the events of the open transaction. */
  #ahead: Place;
  /** Positions after events that may be stored: the connection was lost during the commit. */
  #unsure: Place[] = [];
  #piece: Event | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Error of a background flush, thrown by the next `append`. */
  #lost: { readonly error: unknown } | undefined;
  #change = Promise.withResolvers<void>();
  /** Settles when the last submitted write has ended. */
  #written: Promise<void> = Promise.resolve();
  #ended = false;

  constructor(options: {
    readonly stream: string;
    readonly nextSeq: number;
    readonly committer: Committer;
    readonly onEnd: () => void;
  }) {
    this.stream = options.stream;
    this.#place = { next: options.nextSeq, steps: {} };
    this.#ahead = this.#place;
    this.#committer = options.committer;
    this.#onEnd = options.onEnd;
  }

  /**
   * Resolves when the event is durable. A text delta resolves at once, because it waits up to 50 ms for more text; if
   * writing it fails, the next `append` rejects.
   */
  async append(event: Event): Promise<void> {
    if (!isPiece(event)) return await this.#write([event]);
    this.#throwLost();
    const together = this.#piece && joined(this.#piece, event);
    // Buffered synchronously to keep the order; the flush before it is awaited below.
    const before = together === undefined && this.#piece !== undefined ? this.flush() : undefined;
    const piece = together ?? event;
    this.#piece = piece;
    this.#timer ??= setTimeout(() => this.#flushUnheard(), patienceMs);
    await Promise.all([before, lengthOf(piece) > mostText ? this.flush() : undefined]);
  }

  /** Writes the event and the related rows in one transaction. The caller may retry it. */
  async appendWith<T>(event: Event, work: (tx: Tx, line: Line<Event>) => Promise<T>): Promise<T> {
    this.#flushUnheard();
    let result: { readonly value: T } | undefined;
    await this.#write([event], async (tx, line) => {
      result = { value: await work(tx, line) };
    });
    if (!result) throw new Error('an event was written without its related rows');
    return result.value;
  }

  /** Writes the buffered delta; resolves when it and everything before it is durable. */
  async flush(): Promise<void> {
    if (this.#piece === undefined) await this.#written;
    else await this.#write([]);
  }

  /** Ends the writer. Readers that have all events end, unless another host continues the stream. */
  async end(): Promise<void> {
    try {
      await this.flush();
      this.#throwLost();
    } finally {
      this.#ended = true;
      this.#onEnd();
      this.#tell();
    }
  }

  /** Resolves when events were written or the writer has ended. */
  changed(): Promise<void> {
    return this.#change.promise;
  }

  /** Flushes without waiting; an error is thrown by the next `append`. */
  #flushUnheard(): void {
    this.flush().catch((error: unknown) => {
      this.#lost = { error };
    });
  }

  async #write(events: readonly Event[], work?: (tx: Tx, line: Line<Event>) => Promise<void>): Promise<void> {
    if (this.#ended) throw new Error(`the stream '${this.stream}' has ended`);
    if (!work) this.#throwLost();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const all = this.#piece === undefined ? events : [this.#piece, ...events];
    this.#piece = undefined;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#committer.submit({
      begin: () => {
        this.#ahead = this.#place;
      },
      write: async (tx, ts) => {
        await this.#findPlace(tx);
        const last = await this.#insert(tx, all, ts);
        if (work && last) await work(tx, last);
      },
      alone: work !== undefined,
      done: () => {
        this.#place = this.#ahead;
        this.#unsure = [];
        resolve();
      },
      failed: (error) => {
        if (isUnsure(error) && this.#ahead !== this.#place) this.#unsure.push(this.#ahead);
        this.#ahead = this.#place;
        reject(error);
      },
    });
    this.#written = promise.catch(() => undefined);
    await promise;
    this.#tell();
  }

  /** Finds out which uncertain commits were stored, and continues after them. */
  async #findPlace(tx: Tx): Promise<void> {
    // Once for all jobs of a transaction.
    if (this.#unsure.length === 0 || this.#ahead !== this.#place) return;
    const next = await nextSeqOf(tx, this.stream);
    this.#ahead = this.#unsure.find((one) => one.next === next) ?? this.#ahead;
  }

  async #insert(tx: Tx, events: readonly Event[], ts: string): Promise<Line<Event> | undefined> {
    let last: Line<Event> | undefined;
    for (const event of events) {
      const { line, after } = place(this.#ahead, event, ts);
      await insertLine(tx, this.stream, line);
      this.#ahead = after;
      last = line;
    }
    return last;
  }

  #throwLost(): void {
    const lost = this.#lost;
    this.#lost = undefined;
    if (lost) throw lost.error;
  }

  #tell(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
  }
}
