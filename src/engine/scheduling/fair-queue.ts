import { clientOf, isBatch } from './priority.ts';
import type { Sequence } from './sequence.ts';

/** The waiting sequences of a client, each list in arrival order. */
interface Line {
  readonly interactive: Sequence[];
  readonly batch: Sequence[];
}

/** Compares two clients; the smaller one is served first. */
export type CompareClients = (a: string, b: string) => number;

/** The sequences that wait for a slot, by client. Interactive ones are served before those of batch priority. */
export class FairQueue {
  readonly #lines = new Map<string, Line>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get clients(): Iterable<string> {
    return this.#lines.keys();
  }

  /** Number of the client's waiting sequences. */
  sizeOf(client: string): number {
    const line = this.#lines.get(client);
    return line ? line.interactive.length + line.batch.length : 0;
  }

  /** Adds a sequence to its client's line, at its position in arrival order. */
  add(sequence: Sequence): void {
    const client = clientOf(sequence);
    const line = this.#lines.get(client) ?? { interactive: [], batch: [] };
    this.#lines.set(client, line);
    insertByArrival(isBatch(sequence) ? line.batch : line.interactive, sequence);
    this.#size += 1;
  }

  /** The sequence to serve next: the first in its client's line, of the client that comes first; ties by arrival. */
  next(compare: CompareClients): Sequence | undefined {
    for (const priority of ['interactive', 'batch'] as const) {
      let best: Sequence | undefined;
      for (const line of this.#lines.values()) {
        const [first] = line[priority];
        if (!first) continue;
        const order = best ? compare(clientOf(first), clientOf(best)) : -1;
        if (!best || order < 0 || (order === 0 && first.arrivalOrder < best.arrivalOrder)) best = first;
      }
      if (best) return best;
    }
    return undefined;
  }

  /**
   * The sequence that gives its place to another client's when the queue is full: the newest that has no output, of the client
   * that has the most waiting sequences, batch priority first. Undefined where no client has at least two more than
   * this one.
   */
  lastOfLongestLine(client: string): Sequence | undefined {
    let longest = '';
    for (const other of this.#lines.keys()) if (this.sizeOf(other) > this.sizeOf(longest)) longest = other;
    if (this.sizeOf(longest) < this.sizeOf(client) + 2) return undefined;
    const { interactive = [], batch = [] } = this.#lines.get(longest) ?? {};
    return [batch, interactive].map((line) => line.findLast((one) => one.outputTokens === 0)).find(Boolean);
  }

  remove(sequence: Sequence): void {
    const client = clientOf(sequence);
    const line = this.#lines.get(client);
    const list = line?.[isBatch(sequence) ? 'batch' : 'interactive'];
    const at = list?.indexOf(sequence) ?? -1;
    if (!list || at < 0) return;
    list.splice(at, 1);
    this.#size -= 1;
    if (this.sizeOf(client) === 0) this.#lines.delete(client);
  }

  /** Removes and returns all sequences. */
  clear(): Sequence[] {
    const all = [...this.#lines.values()].flatMap(({ interactive, batch }) => [...interactive, ...batch]);
    this.#lines.clear();
    this.#size = 0;
    return all;
  }
}

function insertByArrival(list: Sequence[], sequence: Sequence): void {
  list.splice(
    list.findLastIndex(({ arrivalOrder }) => arrivalOrder < sequence.arrivalOrder) + 1,
    0,
    sequence,
  );
}
