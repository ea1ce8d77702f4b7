import { ClientGone } from '../../../http/error.ts';
import type { UnnumberedEvent } from '../../../wires/responses/open-items.ts';

/** A response that is being answered without its client. */
export class BackgroundRun {
  readonly #controller = new AbortController();
  readonly #events: string[] | undefined;
  #next = Promise.withResolvers<void>();
  #isOver = false;
  /** Resolves when the response is stored as finished. */
  done: Promise<void> = Promise.resolve();

  /** @param keepsEvents whether the request asked for a stream, which can be read again from any event */
  constructor(keepsEvents: boolean) {
    this.#events = keepsEvents ? [] : undefined;
  }

  /** Aborted when the response is canceled. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get keepsEvents(): boolean {
    return this.#events !== undefined;
  }

  /** The events so far and those that come next, as JSON; undefined where they are not kept. */
  eventsWith(next: readonly UnnumberedEvent[]): readonly string[] | undefined {
    return this.#events && [...this.#events, ...next.map((event, index) => this.#write(event, index))];
  }

  cancel(): void {
    this.#controller.abort(new ClientGone('the response was canceled'));
  }

  add(events: readonly UnnumberedEvent[]): void {
    this.#events?.push(...events.map((event, index) => this.#write(event, index)));
    this.#wake();
  }

  end(): void {
    this.#isOver = true;
    this.#wake();
  }

  /** The events after `sequenceNumber`, as they come. */
  async *read(sequenceNumber: number): AsyncGenerator<string, void, undefined> {
    const events = this.#events ?? [];
    for (let index = sequenceNumber + 1; ; ) {
      const { promise } = this.#next;
      for (; index < events.length; index++) yield events[index] as string;
      if (this.#isOver) return;
      await promise;
    }
  }

  #write(event: UnnumberedEvent, offset: number): string {
    return JSON.stringify({ ...event, sequence_number: (this.#events?.length ?? 0) + offset });
  }

  #wake(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers();
    resolve();
  }
}
