import { randomBytes } from 'node:crypto';
import type { Change, Topic } from './topics.ts';

interface NumberedChange extends Change {
  readonly seq: number;
}

/** Changes that are kept for readers that are behind or connect again. */
const keptChanges = 4096;
/** How long changes are collected, in ms: equal ones are announced once. */
const collectMs = 100;

/** Longer ids, which only callers could make up, are left out: every reader gets them, and the list keeps them. */
const maxIdLength = 512;

/** Work that is only needed while somebody reads. @param signal aborted when the last reader leaves */
type Watcher = (signal: AbortSignal) => void;

/**
 * Announces that something changed on this host, by topic and id and without content: who needs it reads it by its route.
 * Announcing never waits and never fails. The last changes are kept in one list, in which each reader has a place, so readers
 * hold no memory; one that is too far behind has to read everything anew.
 */
export class ChangeBus {
  /** Differs for each process: numbers of another one mean nothing. */
  readonly #epoch = randomBytes(6).toString('hex');
  readonly #watchers: Watcher[] = [];
  #kept: NumberedChange[] = [];
  #lastSeq = 0;
  /** Changes that are to be announced, by topic and id. */
  readonly #collected = new Map<string, Change>();
  #isPublishing = false;
  #announced = Promise.withResolvers<void>();
  /** Open readers of each caller. */
  readonly #readers = new Map<string, number>();
  #watching: AbortController | undefined;

  announce(topic: Topic, anyId?: string): void {
    const id = anyId !== undefined && anyId.length <= maxIdLength ? anyId : undefined;
    this.#collected.set(id === undefined ? topic : `${topic} ${id}`, { topic, id });
    if (this.#isPublishing) return;
    this.#isPublishing = true;
    setTimeout(() => this.#publish(), collectMs).unref();
  }

  #publish(): void {
    this.#isPublishing = false;
    for (const change of this.#collected.values()) this.#kept.push({ ...change, seq: ++this.#lastSeq });
    this.#collected.clear();
    // Twice as many, so that the list is not copied for each change.
    if (this.#kept.length > 2 * keptChanges) this.#kept = this.#kept.slice(-keptChanges);
    this.#announced.resolve();
    this.#announced = Promise.withResolvers();
  }

  /** Adds work that runs only while somebody reads. */
  whileRead(watcher: Watcher): void {
    this.#watchers.push(watcher);
    if (this.#watching) watcher(this.#watching.signal);
  }

  get readers(): number {
    return [...this.#readers.values()].reduce((sum, count) => sum + count, 0);
  }

  readersOf(by: string): number {
    return this.#readers.get(by) ?? 0;
  }

  /** Registers a reader. @param by the caller @returns a function that ends it */
  open(by: string): () => void {
    this.#readers.set(by, this.readersOf(by) + 1);
    if (!this.#watching) {
      this.#watching = new AbortController();
      for (const watcher of this.#watchers) watcher(this.#watching.signal);
    }
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = this.readersOf(by) - 1;
      if (left > 0) this.#readers.set(by, left);
      else this.#readers.delete(by);
      if (this.#readers.size > 0) return;
      this.#watching?.abort();
      this.#watching = undefined;
    };
  }

  /** Number of the newest change. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  idOf(seq: number): string {
    return `${this.#epoch}-${seq}`;
  }

  /** The number of an id; undefined for one of another process, or of changes that are not kept any more. */
  seqOf(id: string): number | undefined {
    const [epoch, text = ''] = id.split('-', 2);
    const seq = Number(text);
    return epoch === this.#epoch && this.since(seq) ? seq : undefined;
  }

  /** The changes after a number, oldest first. Undefined: they are not kept any more, or there was no such number. */
  since(seq: number): readonly NumberedChange[] | undefined {
    const first = this.#kept[0]?.seq ?? this.#lastSeq + 1;
    if (!(seq >= first - 1 && seq <= this.#lastSeq)) return undefined;
    return this.#kept.slice(seq - first + 1);
  }

  /** Resolves when there is a change after this call. */
  get next(): Promise<void> {
    return this.#announced.promise;
  }
}
