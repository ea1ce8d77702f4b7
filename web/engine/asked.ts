import type { ChatError } from './chat-error.ts';
import type { ChatChunk, ChatCompletion } from './types.ts';

/** A request in progress on the page's side: collects the chunks of its answer. */
export class Asked {
  /** Resolves when the engine accepts the request; rejects when it refuses. */
  readonly begun: Promise<void>;
  /** Resolves when the answer has ended or failed; never rejects. */
  readonly over: Promise<void>;
  readonly #stop: () => void;
  readonly #begin: (error?: ChatError) => void;
  readonly #finish: () => void;
  readonly #chunks: ChatChunk[] = [];
  #failure: ChatError | undefined;
  #isOver = false;
  /** Wakes the consumer of `chunks`. */
  #wake: () => void = () => {};

  /** @param stop ends the answer early */
  constructor(stop: () => void) {
    this.#stop = stop;
    const begun = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    this.begun = begun.promise;
    this.over = over.promise;
    this.#begin = (error) => (error ? begun.reject(error) : begun.resolve());
    this.#finish = over.resolve;
  }

  take(chunk: ChatChunk): void {
    if (this.#isOver) return;
    this.#chunks.push(chunk);
    this.#begin();
    if (chunk.choices[0].finish_reason !== null) this.#end();
    this.#wake();
  }

  fail(error: ChatError): void {
    if (this.#isOver) return;
    this.#failure = error;
    this.#begin(error);
    this.#end();
    this.#wake();
  }

  #end(): void {
    this.#isOver = true;
    this.#finish();
  }

  /** The chunks, for one consumer; leaving the loop early stops the answer. */
  async *chunks(): AsyncGenerator<ChatChunk, void, undefined> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk) yield chunk;
        else if (this.#failure) throw this.#failure;
        else if (this.#isOver) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      if (!this.#isOver) this.#stop();
    }
  }

  async whole(): Promise<ChatCompletion> {
    let content = '';
    let reasoning = '';
    for await (const chunk of this.chunks()) {
      const { choices, usage, timings, ...head } = chunk;
      const [{ delta, finish_reason }] = choices;
      content += delta.content ?? '';
      reasoning += delta.reasoning_content ?? '';
      if (finish_reason === null || !usage || !timings) continue;
      const thought = reasoning === '' ? {} : { reasoning_content: reasoning };
      return {
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content, ...thought }, finish_reason }],
        usage,
        timings,
      };
    }
    throw new Error('an answer ended without its last chunk');
  }
}
