import type { StoreReader, Store, Tx } from '../store/index.ts';
import { Committer } from './event-log/committer.ts';
import { insertEvent, type NumberedEvent, type UnnumberedEvent, readNextSeq } from './event-log/events.ts';
import { StreamWriter } from './event-log/stream-writer.ts';
import { waitForChange } from './wait-for-change.ts';

/** Events that a reader fetches at a time. */
const readBatchSize = 64;
/** How often a stream that another host writes is polled. */
const pollIntervalMs = 250;

export interface ReadOptions {
  /** The last `seq` that the reader has; -1 reads from the start. */
  readonly after: number;
  readonly signal: AbortSignal;
  /**
   * Called when this host has no writer for the stream: whether the stream is complete, so that no other host writes
   * it either. Default: it is complete, and a reader ends after the last stored event.
   */
  readonly isComplete?: () => Promise<boolean>;
}

/**
 * Event streams of tasks and runs. Events are numbered and stored in the database before a reader sees them. Events of
 * many streams that arrive at the same time share one transaction. Readers read the database, so a slow reader delays
 * nothing and holds no memory.
 */
export class EventLog {
  readonly #store: Store;
  readonly #committer: Committer;
  readonly #writers = new Map<string, StreamWriter<UnnumberedEvent>>();

  constructor(store: Store) {
    this.#store = store;
    this.#committer = new Committer(store);
  }

  /** Starts or continues a stream. A stream has one writer at a time. */
  open<Event extends UnnumberedEvent>(
    stream: string,
    { nextSeq }: { readonly nextSeq: number },
  ): StreamWriter<Event> {
    if (this.#writers.has(stream)) throw new Error(`the stream '${stream}' already has a writer`);
    const writer = new StreamWriter<Event>({
      stream,
      nextSeq,
      committer: this.#committer,
      onEnd: () => this.#writers.delete(stream),
    });
    this.#writers.set(stream, writer);
    return writer;
  }

  /** Inserts one event in the caller's transaction. The stream must have no open writer. */
  async insert<Event extends UnnumberedEvent>(
    tx: Tx,
    stream: string,
    seq: number,
    event: Event,
  ): Promise<NumberedEvent<Event>> {
    const line = { ...event, seq, ts: this.#store.time() };
    await insertEvent(tx, stream, line);
    return line;
  }

  /** The `seq` of the next event of a stream. */
  async nextSeq(db: StoreReader | Tx, stream: string): Promise<number> {
    return await readNextSeq(db, stream);
  }

  /**
   * Yields the events of a stream as JSON texts: the stored ones first, then new ones until the stream is complete.
   * Rejects with the signal's reason.
   */
  async *read(
    stream: string,
    { after, signal, isComplete = () => Promise.resolve(true) }: ReadOptions,
  ): AsyncGenerator<string, void, undefined> {
    let last = after;
    for (;;) {
      signal.throwIfAborted();
      const writer = this.#writers.get(stream);
      // Taken before the events are read, so that none is missed.
      const change = writer?.changed();
      const isLastRead = writer === undefined && (await isComplete());
      let rows;
      do {
        rows = await this.#readEvents(stream, last);
        for (const { seq, event } of rows) {
          last = seq;
          yield event;
          signal.throwIfAborted();
        }
      } while (rows.length === readBatchSize);
      if (isLastRead) return;
      await waitForChange(change, change ? undefined : pollIntervalMs, signal);
    }
  }

  async #readEvents(stream: string, after: number) {
    return await this.#store.read((db) =>
      db
        .selectFrom('events')
        .select(['seq', 'event'])
        .where('stream', '=', stream)
        .where('seq', '>', after)
        .orderBy('seq')
        .limit(readBatchSize)
        .execute(),
    );
  }
}
