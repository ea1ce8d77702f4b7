import type { GenerateRequest } from '../types.ts';
import type { Tokenizer, TokenStream } from '../tokenizer/types.ts';
import { StopMatcher } from './stop-matcher.ts';

/**
 * Converts sampled token ids to text that is safe to send: complete characters, visible control tokens, and no part
 * of a stop string.
 */
export class AnswerText {
  readonly #tokenizer: Tokenizer;
  readonly #stream: TokenStream;
  readonly #stop: StopMatcher;
  readonly #visible: ReadonlySet<number> | undefined;

  constructor(tokenizer: Tokenizer, { stop, visible }: Pick<GenerateRequest, 'stop' | 'visible'>) {
    this.#tokenizer = tokenizer;
    this.#stream = tokenizer.stream();
    this.#stop = new StopMatcher(stop);
    this.#visible = visible;
  }

  get isStopped(): boolean {
    return this.#stop.isStopped;
  }

  /** The stop string that ended the text, if any. */
  get stopText(): string | undefined {
    return this.#stop.stopText;
  }

  /** Consumes one token and returns the text that can be sent now. */
  push(id: number): string {
    // A control token ends an incomplete character.
    return this.#isVisible(id) ? this.pushLast(id) : this.#stop.push(this.#stream.push(id));
  }

  /** Like `push`, for the last token: an incomplete character is flushed as U+FFFD. */
  pushLast(id: number): string {
    const controlText = this.#isVisible(id) ? this.#tokenizer.tokenText(id) : '';
    return this.#stop.push(this.#stream.flush() + controlText);
  }

  /** Ends an incomplete character with U+FFFD. */
  flushPartialCharacter(): string {
    return this.#stop.push(this.#stream.flush());
  }

  /** Returns text that was held back because it could have been the start of a stop string. */
  flushHeldText(): string {
    return this.#stop.flush();
  }

  #isVisible(id: number): boolean {
    return this.#visible?.has(id) === true && this.#tokenizer.isControl(id);
  }
}
