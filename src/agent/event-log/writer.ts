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

/** How long pieces of text wait for more. */
const patienceMs = 50;
/** Characters of a piece that waits for nothing more. */
const mostText = 16_384;

/** Writes one stream. Numbers are given when a line is written, so that what fails leaves no hole. */
export class StreamWriter<Event extends NewLine> {
  readonly stream: string;
  readonly #committer: Committer;
  readonly #onEnd: () => void;
  /** After what is on the disk. */
  #place: Place;
  /** After what is on its way there with it. */
  #ahead: Place;
  /** After what may be on the disk: the connection was lost while it was being saved. */
  #unsure: Place[] = [];
  #piece: Event | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Why the last pieces are lost. */
  #lost: { readonly error: unknown } | undefined;
  #change = Promise.withResolvers<void>();
  /** The last of what is on its way. */
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
   * Resolves when the event is on the disk; a piece of text at once, because it waits up to 50 ms for more. Pieces that
   * could not be written reject the next `append`.
   */
  async append(event: Event): Promise<void> {
    if (!isPiece(event)) return await this.#write([event]);
    this.#throwLost();
    const together = this.#piece && joined(this.#piece, event);
    // Taken at once and in order; whether it is written is seen later.
    const before = together === undefined && this.#piece !== undefined ? this.flush() : undefined;
    const piece = together ?? event;
    this.#piece = piece;
    this.#timer ??= setTimeout(() => this.#flushUnheard(), patienceMs);
    await Promise.all([before, lengthOf(piece) > mostText ? this.flush() : undefined]);
  }

  /** The event, and what belongs to it, in one transaction: all of it or nothing. It may be tried again. */
  async appendWith<T>(event: Event, work: (tx: Tx, line: Line<Event>) => Promise<T>): Promise<T> {
    this.#flushUnheard();
    let result: { readonly value: T } | undefined;
    await this.#write([event], async (tx, line) => {
      result = { value: await work(tx, line) };
    });
    if (!result) throw new Error('a line was written without what belongs to it');
    return result.value;
  }

  /** Writes what waits; resolves when that and all before it is on the disk. */
  async flush(): Promise<void> {
    if (this.#piece === undefined) await this.#written;
    else await this.#write([]);
  }

  /** Nothing comes any more from here; readers that have all are done, unless somebody else goes on. */
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

  /** Resolves with the next lines, or the end. */
  changed(): Promise<void> {
    return this.#change.promise;
  }

  /** What goes wrong, the next `append` tells. */
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

  /** Behind what turns out to have been saved. */
  async #findPlace(tx: Tx): Promise<void> {
    // Once for all that are written together.
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
