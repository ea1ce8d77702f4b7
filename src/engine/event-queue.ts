import type { GenerationEvent } from './types.ts';

/** Events on their way from the scheduler to the one who reads them, and how many tokens wait among them. */
export class EventQueue {
  /** Told whenever an event is taken. */
  onRead: (() => void) | undefined;
  readonly #events: GenerationEvent[] = [];
  #tokens = 0;
  #failure: { error: unknown } | undefined;
  #wake: (() => void) | undefined;

  /** Tokens of events that were not taken yet. */
  get tokens(): number {
    return this.#tokens;
  }

  push(event: GenerationEvent): void {
    this.#events.push(event);
    if (event.type === 'text') this.#tokens += event.ids.length;
    this.#signal();
  }

  /** Thrown to the reader behind the events that are there. */
  fail(error: unknown): void {
    this.#failure = { error };
    this.#signal();
  }

  /** The events as they come, up to the last one. */
  async *read(): AsyncGenerator<GenerationEvent, void, undefined> {
    for (;;) {
      const next = this.#events.shift();
      if (next) {
        if (next.type === 'text') this.#tokens -= next.ids.length;
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
