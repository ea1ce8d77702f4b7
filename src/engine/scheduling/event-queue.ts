import type { GenerationEvent } from '../types.ts';

/** Generation events on their way from the scheduler to the consumer, and the number of unread tokens among them. */
export class EventQueue {
  /** Called whenever the consumer takes an event. */
  onRead: (() => void) | undefined;
  readonly #events: GenerationEvent[] = [];
  #unreadTokens = 0;
  #failure: { error: unknown } | undefined;
  #wake: (() => void) | undefined;

  /** Tokens of events that were not taken yet. */
  get unreadTokens(): number {
    return this.#unreadTokens;
  }

  push(event: GenerationEvent): void {
    this.#events.push(event);
    if (event.type === 'text') this.#unreadTokens += event.ids.length;
    this.#signal();
  }

  /** The consumer gets this error after the queued events. */
  fail(error: unknown): void {
    this.#failure = { error };
    this.#signal();
  }

  /** Yields events as they arrive, through the last one. */
  async *read(): AsyncGenerator<GenerationEvent, void, undefined> {
    for (;;) {
      const next = this.#events.shift();
      if (next) {
        if (next.type === 'text') this.#unreadTokens -= next.ids.length;
        this.onRead?.();
        yield next;
        if (next.type === 'end') return;
      } else if (this.#failure) {
        throw this.#failure.error;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #signal(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
