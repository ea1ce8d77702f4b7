import type { GenerateRequest } from './types.ts';
import type { Tokenizer, TokenStream } from './tokenizer/types.ts';
import { StopMatcher } from './stop-matcher.ts';

/** An answer's tokens as certain text: whole characters, visible control tokens, and nothing of a stop text. */
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

  get stopped(): boolean {
    return this.#stop.stopped;
  }

  /** The stop text that was found. */
  get stopText(): string | undefined {
    return this.#stop.found;
  }

  /** The text that became certain with this token. */
  push(id: number): string {
    // A control token ends a character that was begun.
    return this.#isVisible(id) ? this.pushLast(id) : this.#stop.push(this.#stream.push(id));
  }

  /** The same of a token behind which no character goes on. */
  pushLast(id: number): string {
    const own = this.#isVisible(id) ? this.#tokenizer.tokenText(id) : '';
    return this.#stop.push(this.#stream.flush() + own);
  }

  /** The end of a character that was begun: U+FFFD. */
  flush(): string {
    return this.#stop.push(this.#stream.flush());
  }

  /** What was held back because a stop text might have begun with it. */
  rest(): string {
    return this.#stop.flush();
  }

  #isVisible(id: number): boolean {
    return this.#visible?.has(id) === true && this.#tokenizer.isControl(id);
  }
}
