import type { Tx } from '../../store/index.ts';
import { type Committer, isCommitUncertain } from './committer.ts';
import {
  insertEvent,
  isTextDelta,
  mergeDeltas,
  textLength,
  type NumberedEvent,
  type UnnumberedEvent,
  readNextSeq,
  numberEvent,
  type StreamPosition,
} from './events.ts';

/** How long a text delta waits for more text. */
const flushDelayMs = 50;
/** Characters after which a text delta is written at once. */
const maxText = 16_384;

/** Writes one stream. An event gets its `seq` when it is written, so a failed write leaves no gap. */
export class StreamWriter<Event extends UnnumberedEvent> {
  readonly stream: string;
  readonly #committer: Committer;
  readonly #onEnd: () => void;
  /** Position after the last durable event. */
  #committedPosition: StreamPosition;
  /** Position after the events of the open transaction. */
  #pendingPosition: StreamPosition;
  /** Positions after events that may be stored: the connection was lost during the commit. */
  #uncertainPositions: StreamPosition[] = [];
  #bufferedDelta: Event | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Error of a background flush, thrown by the next `append`. */
  #flushError: { readonly error: unknown } | undefined;
  #nextChange = Promise.withResolvers<void>();
  /** Settles when the last submitted write has ended. */
  #lastWrite: Promise<void> = Promise.resolve();
  #ended = false;

  constructor(options: {
    readonly stream: string;
    readonly nextSeq: number;
    readonly committer: Committer;
    readonly onEnd: () => void;
  }) {
    this.stream = options.stream;
    this.#committedPosition = { next: options.nextSeq, steps: {} };
    this.#pendingPosition = this.#committedPosition;
    this.#committer = options.committer;
    this.#onEnd = options.onEnd;
  }

  /**
   * Resolves when the event is durable. A text delta resolves at once, because it waits up to 50 ms for more text; if
   * writing it fails, the next `append` rejects.
   */
  async append(event: Event): Promise<void> {
    if (!isTextDelta(event)) return await this.#write([event]);
    this.#throwFlushError();
    const merged = this.#bufferedDelta && mergeDeltas(this.#bufferedDelta, event);
    // Buffered synchronously to keep the order; the flush before it is awaited below.
    const before = merged === undefined && this.#bufferedDelta !== undefined ? this.flush() : undefined;
    const bufferedDelta = merged ?? event;
    this.#bufferedDelta = bufferedDelta;
    this.#timer ??= setTimeout(() => this.#flushInBackground(), flushDelayMs);
    await Promise.all([before, textLength(bufferedDelta) > maxText ? this.flush() : undefined]);
  }

  /** Writes the event and the related rows in one transaction. The caller may retry it. */
  async appendWith<T>(
    event: Event,
    writeRelated: (tx: Tx, line: NumberedEvent<Event>) => Promise<T>,
  ): Promise<T> {
    this.#flushInBackground();
    let result: { readonly value: T } | undefined;
    await this.#write([event], async (tx, line) => {
      result = { value: await writeRelated(tx, line) };
    });
    if (!result) throw new Error('an event was written without its related rows');
    return result.value;
  }

  /** Writes the buffered delta; resolves when it and everything before it is durable. */
  async flush(): Promise<void> {
    if (this.#bufferedDelta === undefined) await this.#lastWrite;
    else await this.#write([]);
  }

  /** Ends the writer. Readers that have all events end, unless another host continues the stream. */
  async end(): Promise<void> {
    try {
      await this.flush();
      this.#throwFlushError();
    } finally {
      this.#ended = true;
      this.#onEnd();
      this.#notifyReaders();
    }
  }

  /** Resolves when events were written or the writer has ended. */
  changed(): Promise<void> {
    return this.#nextChange.promise;
  }

  /** Flushes without waiting; an error is thrown by the next `append`. */
  #flushInBackground(): void {
    this.flush().catch((error: unknown) => {
      this.#flushError = { error };
    });
  }

  async #write(
    events: readonly Event[],
    writeRelated?: (tx: Tx, line: NumberedEvent<Event>) => Promise<void>,
  ): Promise<void> {
    if (this.#ended) throw new Error(`the stream '${this.stream}' has ended`);
    if (!writeRelated) this.#throwFlushError();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#bufferedDelta === undefined ? events : [this.#bufferedDelta, ...events];
    this.#bufferedDelta = undefined;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#committer.submit({
      onAttempt: () => {
        this.#pendingPosition = this.#committedPosition;
      },
      write: async (tx, ts) => {
        await this.#resolvePosition(tx);
        const last = await this.#insert(tx, batch, ts);
        if (writeRelated && last) await writeRelated(tx, last);
      },
      isExclusive: writeRelated !== undefined,
      onDone: () => {
        this.#committedPosition = this.#pendingPosition;
        this.#uncertainPositions = [];
        resolve();
      },
      onFailed: (error) => {
        if (isCommitUncertain(error) && this.#pendingPosition !== this.#committedPosition)
          this.#uncertainPositions.push(this.#pendingPosition);
        this.#pendingPosition = this.#committedPosition;
        reject(error);
      },
    });
    this.#lastWrite = promise.catch(() => undefined);
    await promise;
    this.#notifyReaders();
  }

  /** Finds out which uncertain commits were stored, and continues after them. */
  async #resolvePosition(tx: Tx): Promise<void> {
    // Once for all jobs of a transaction.
    if (this.#uncertainPositions.length === 0 || this.#pendingPosition !== this.#committedPosition) return;
    const next = await readNextSeq(tx, this.stream);
    this.#pendingPosition =
      this.#uncertainPositions.find((one) => one.next === next) ?? this.#pendingPosition;
  }

  async #insert(tx: Tx, events: readonly Event[], ts: string): Promise<NumberedEvent<Event> | undefined> {
    let last: NumberedEvent<Event> | undefined;
    for (const event of events) {
      const { line, after } = numberEvent(this.#pendingPosition, event, ts);
      await insertEvent(tx, this.stream, line);
      this.#pendingPosition = after;
      last = line;
    }
    return last;
  }

  #throwFlushError(): void {
    const flushError = this.#flushError;
    this.#flushError = undefined;
    if (flushError) throw flushError.error;
  }

  #notifyReaders(): void {
    const { resolve } = this.#nextChange;
    this.#nextChange = Promise.withResolvers<void>();
    resolve();
  }
}
