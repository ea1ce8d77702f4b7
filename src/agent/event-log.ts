import type { Db, Store, Tx } from '../store/index.ts';
import { Committer } from './event-log/committer.ts';
import { insertLine, type Line, type NewLine, nextSeqOf } from './event-log/lines.ts';
import { StreamWriter } from './event-log/writer.ts';
import { waitForChange } from './wait-for-change.ts';

/** Lines that a reader holds at a time. */
const batch = 64;
/** How often a stream is looked at that another host writes. */
const pollMs = 250;

export interface ReadOptions {
  /** The last `seq` that the reader has; -1 from the start. */
  readonly after: number;
  readonly signal: AbortSignal;
  /**
   * Asked while this host writes no more of the stream: whether nobody else does. By default nobody does, so that a
   * reader ends when it has all.
   */
  readonly ended?: () => Promise<boolean>;
}

/**
 * Streams of tasks and runs: numbered lines, in the database before anybody sees them. What is written at the same time
 * by many streams is one transaction. Readers read the database, so that a slow one holds nothing back and nothing in
 * memory.
 */
export class EventLog {
  readonly #store: Store;
  readonly #committer: Committer;
  readonly #writers = new Map<string, StreamWriter<NewLine>>();

  constructor(store: Store) {
    this.#store = store;
    this.#committer = new Committer(store);
  }

  /** Begins or goes on with a stream; one writer at a time. */
  open<Event extends NewLine>(
    stream: string,
    { nextSeq }: { readonly nextSeq: number },
  ): StreamWriter<Event> {
    if (this.#writers.has(stream)) throw new Error(`the stream '${stream}' is being written already`);
    const writer = new StreamWriter<Event>({
      stream,
      nextSeq,
      committer: this.#committer,
      onEnd: () => this.#writers.delete(stream),
    });
    this.#writers.set(stream, writer);
    return writer;
  }

  /** One line in a transaction of the caller, of a stream that no writer is open for. */
  async insert<Event extends NewLine>(
    tx: Tx,
    stream: string,
    seq: number,
    event: Event,
  ): Promise<Line<Event>> {
    const line = { ...event, seq, ts: this.#store.time() };
    await insertLine(tx, stream, line);
    return line;
  }

  /** What the next line of a stream is numbered with. */
  async nextSeq(db: Db | Tx, stream: string): Promise<number> {
    return await nextSeqOf(db, stream);
  }

  /**
   * The lines of a stream as JSON texts, those that are there and then those that come, until it is ended. Rejects with
   * the signal's reason.
   */
  async *read(
    stream: string,
    { after, signal, ended = () => Promise.resolve(true) }: ReadOptions,
  ): AsyncGenerator<string, void, undefined> {
    let last = after;
    for (;;) {
      signal.throwIfAborted();
      const writer = this.#writers.get(stream);
      // Before the lines are read, so that none is missed.
      const change = writer?.changed();
      const over = writer === undefined && (await ended());
      let rows;
      do {
        rows = await this.#lines(stream, last);
        for (const { seq, event } of rows) {
          last = seq;
          yield event;
          signal.throwIfAborted();
        }
      } while (rows.length === batch);
      if (over) return;
      await waitForChange(change, change ? undefined : pollMs, signal);
    }
  }

  async #lines(stream: string, after: number) {
    return await this.#store.read((db) =>
      db
        .selectFrom('events')
        .select(['seq', 'event'])
        .where('stream', '=', stream)
        .where('seq', '>', after)
        .orderBy('seq')
        .limit(batch)
        .execute(),
    );
  }
}
