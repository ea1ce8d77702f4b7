import { ClientShares } from './client-shares.ts';
import type { FairQueue } from './fair-queue.ts';
import { clientOf, isBatch } from './priority.ts';
import type { Sequence } from './sequence.ts';

/**
 * Divides the slots between clients by their weights: decides who is served next, who makes room, and in which order
 * running sequences get pages and prompt tokens. With one client the order is that of arrival.
 */
export class FairShare {
  readonly #shares: ClientShares;
  readonly #running: Sequence[];
  readonly #waiting: FairQueue;

  /** @param running the running sequences, which this class sorts */
  constructor(running: Sequence[], waiting: FairQueue, weights?: ReadonlyMap<string, number>) {
    this.#shares = new ClientShares(weights);
    this.#running = running;
    this.#waiting = waiting;
  }

  /** To be called before a sequence is added to the waiting ones. */
  arrive(sequence: Sequence): void {
    const client = clientOf(sequence);
    const active = new Set([...this.#waiting.clients, ...this.#running.map(clientOf)]);
    if (!active.has(client)) this.#shares.activate(client, active);
  }

  admit(sequence: Sequence): void {
    this.#shares.admit(clientOf(sequence));
  }

  /** Tokens were computed for the sequence. */
  charge(sequence: Sequence, tokens: number): void {
    this.#shares.charge(clientOf(sequence), tokens);
  }

  /** The waiting sequence to admit next: of the client that runs the least for its weight, and then that got the least. */
  next(): Sequence | undefined {
    if (this.#waiting.size === 0) return undefined;
    const counts = this.#countRunning();
    const loadOf = (client: string) => (counts.get(client) ?? 0) / this.#shares.weightOf(client);
    return this.#waiting.next(
      (a, b) => loadOf(a) - loadOf(b) || this.#shares.serviceOf(a) - this.#shares.serviceOf(b),
    );
  }

  /**
   * The running sequence that makes room for a waiting one, which lacks a slot or pages:
   * - one of batch priority, for an interactive one;
   * - the youngest of the client that runs the most for its weight, if it still runs as much as the waiting one's
   *   client afterwards;
   * - the youngest of a client with several requests, if the waiting one's client runs nothing and is far behind it.
   */
  victimFor(sequence: Sequence): Sequence | undefined {
    const lastOfBatch = isBatch(sequence) ? undefined : this.#running.findLast(isBatch);
    if (lastOfBatch) return lastOfBatch;
    const client = clientOf(sequence);
    const counts = this.#countRunning();
    const loadOf = (other: string, change: number) =>
      ((counts.get(other) ?? 0) + change) / this.#shares.weightOf(other);
    const hasSeveral = (other: string) => (counts.get(other) ?? 0) + this.#waiting.sizeOf(other) > 1;
    const isFarAhead = (other: string) =>
      !counts.has(client) && hasSeveral(other) && this.#shares.isBehind(client, other);
    const givesWay = (other: string) =>
      other !== client && (loadOf(other, -1) >= loadOf(client, 1) || isFarAhead(other));
    let victim: Sequence | undefined;
    for (const one of this.#running) {
      if (isBatch(one) !== isBatch(sequence) || !givesWay(clientOf(one))) continue;
      const [load, most] = [loadOf(clientOf(one), 0), victim ? loadOf(clientOf(victim), 0) : 0];
      if (!victim || load >= most) victim = one;
    }
    return victim;
  }

  /** Sorts the running sequences: the first of each client, then the second of each; those of batch priority last. */
  sort(): void {
    const byArrival = this.#running.sort(
      (a, b) => Number(isBatch(a)) - Number(isBatch(b)) || a.arrivalOrder - b.arrivalOrder,
    );
    const counts = new Map<string, number>();
    const ranks = new Map<Sequence, number>();
    for (const sequence of byArrival) {
      const client = clientOf(sequence);
      const count = (counts.get(client) ?? 0) + 1;
      counts.set(client, count);
      ranks.set(sequence, count / this.#shares.weightOf(client));
    }
    if (counts.size < 2) return;
    const rankOf = (sequence: Sequence) => ranks.get(sequence) ?? 0;
    byArrival.sort(
      (a, b) =>
        Number(isBatch(a)) - Number(isBatch(b)) || rankOf(a) - rankOf(b) || a.arrivalOrder - b.arrivalOrder,
    );
  }

  /**
   * The running sequences in the order in which their prompts are computed: of the client that got the least first, and
   * then that runs the least.
   */
  promptOrder(): Sequence[] {
    const counts = this.#countRunning();
    return this.#running.toSorted(
      (a, b) =>
        Number(isBatch(a)) - Number(isBatch(b)) ||
        this.#shares.serviceOf(clientOf(a)) - this.#shares.serviceOf(clientOf(b)) ||
        (counts.get(clientOf(a)) ?? 0) - (counts.get(clientOf(b)) ?? 0),
    );
  }

  #countRunning(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const one of this.#running) counts.set(clientOf(one), (counts.get(clientOf(one)) ?? 0) + 1);
    return counts;
  }
}
