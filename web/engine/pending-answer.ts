import type { ChatError } from './chat-error.ts';
import type { ChatChunk, ChatCompletion } from './types.ts';

/** A request in progress on the page's side: collects the chunks of its answer. */
export class PendingAnswer {
  /** Resolves when the engine accepts the request; rejects when it refuses. */
  readonly accepted: Promise<void>;
  /** Resolves when the answer has ended or failed; never rejects. */
  readonly ended: Promise<void>;
  readonly #stop: () => void;
  readonly #settleAccepted: (error?: ChatError) => void;
  readonly #finish: () => void;
  readonly #chunks: ChatChunk[] = [];
  #failure: ChatError | undefined;
  #isEnded = false;
  /** Wakes the consumer of `chunks`. */
  #wakeConsumer: () => void = () => {};

  /** @param stop ends the answer early */
  constructor(stop: () => void) {
    this.#stop = stop;
    const accepted = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    this.accepted = accepted.promise;
    this.ended = ended.promise;
    this.#settleAccepted = (error) => (error ? accepted.reject(error) : accepted.resolve());
    this.#finish = ended.resolve;
  }

  push(chunk: ChatChunk): void {
    if (this.#isEnded) return;
    this.#chunks.push(chunk);
    this.#settleAccepted();
    if (chunk.choices[0].finish_reason !== null) this.#end();
    this.#wakeConsumer();
  }

  fail(error: ChatError): void {
    if (this.#isEnded) return;
    this.#failure = error;
    this.#settleAccepted(error);
    this.#end();
    this.#wakeConsumer();
  }

  #end(): void {
    this.#isEnded = true;
    this.#finish();
  }

  /** The chunks, for one consumer; leaving the loop early stops the answer. */
  async *chunks(): AsyncGenerator<ChatChunk, void, undefined> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk) yield chunk;
        else if (this.#failure) throw this.#failure;
        else if (this.#isEnded) return;
        else await new Promise<void>((resolve) => (this.#wakeConsumer = resolve));
      }
    } finally {
      if (!this.#isEnded) this.#stop();
    }
  }

  async collect(): Promise<ChatCompletion> {
    let content = '';
    let reasoning = '';
    for await (const chunk of this.chunks()) {
      const { choices, usage, timings, ...head } = chunk;
      const [{ delta, finish_reason }] = choices;
      content += delta.content ?? '';
      reasoning += delta.reasoning_content ?? '';
      if (finish_reason === null || !usage || !timings) continue;
      const reasoningMember = reasoning === '' ? {} : { reasoning_content: reasoning };
      return {
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message: { role: 'assistant', content, ...reasoningMember }, finish_reason }],
        usage,
        timings,
      };
    }
    throw new Error('an answer ended without its last chunk');
  }
}
