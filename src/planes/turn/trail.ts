import type { TokenLogprob, Tokenizer } from '../../engine/index.ts';

/** Limit of tokens that are kept when the parser rewrote their text; they may match the text that follows. */
const mostLeft = 64;

interface Step {
  readonly text: string;
  readonly logprob: TokenLogprob | undefined;
  /** The rest of a token that was already counted for the preceding text. */
  readonly spent?: true;
}

export interface Taken {
  readonly tokens: number;
  readonly logprobs: readonly TokenLogprob[];
}

/**
 * Aligns an answer's tokens with the text that a parser returns, so that each piece of text gets the tokens it consists
 * of. Tokens between the pieces are markup (`</think>`) and are counted for none.
 */
export class TokenTrail {
  readonly #tokenizer: Tokenizer;
  readonly #visible: ReadonlySet<number>;
  readonly #decoder;
  #steps: Step[] = [];

  /** @param visible control tokens whose text the parser receives */
  constructor(tokenizer: Tokenizer, visible: ReadonlySet<number>) {
    this.#tokenizer = tokenizer;
    this.#visible = visible;
    this.#decoder = tokenizer.stream();
  }

  /** @returns the number of characters that the token completed; 0 for a control token that is not visible */
  push(id: number, logprob: TokenLogprob | undefined): number {
    const text = this.#textOf(id);
    if (text !== undefined) this.#steps.push({ text, logprob });
    return text?.length ?? 0;
  }

  /**
   * Returns the tokens of a piece of text that the parser returned as early as it could; tokens before the piece are
   * dropped.
   * @param unparsedLength characters at the end that the parser has not received
   */
  take(text: string, ahead = 0): Taken {
    const all = this.#text(ahead);
    const start = placeOf(text, all);
    // The parser changed the text, so all remaining tokens are returned.
    const [from, to] = start === -1 ? [0, all.length + 1] : [start, start + text.length];
    const logprobs: TokenLogprob[] = [];
    let at = 0;
    let tokens = 0;
    let used = 0;
    let rest = '';
    for (const step of this.#steps) {
      if (at >= to) break;
      const end = at + step.text.length;
      used += 1;
      rest = step.text.slice(to - at);
      // A token without text contains the first bytes of a character.
      if (!step.spent && (end > from || (end === at && at >= from))) {
        tokens += 1;
        if (step.logprob) logprobs.push(step.logprob);
      }
      at = end;
    }
    const left = this.#steps.slice(used);
    this.#steps = rest === '' ? left : [{ text: rest, logprob: undefined, spent: true }, ...left];
    return { tokens, logprobs };
  }

  /** Skips a text whose tokens are not needed, where the parser returned it unchanged. */
  pass(text: string, ahead = 0): void {
    if (this.#text(ahead).includes(text)) this.take(text, ahead);
    else this.#steps = this.#steps.slice(-mostLeft);
  }

  #text(ahead: number): string {
    const all = this.#steps.map((step) => step.text).join('');
    return all.slice(0, Math.max(0, all.length - ahead));
  }

  #textOf(id: number): string | undefined {
    if (!this.#tokenizer.isControl(id)) return this.#decoder.push(id);
    return this.#visible.has(id) ? this.#tokenizer.tokenText(id) : undefined;
  }
}

/**
 * Finds the start of a piece. After markup it is the last occurrence, extended backwards over adjacent repetitions,
 * because the markup may contain the same text.
 */
function placeOf(piece: string, all: string): number {
  if (all.startsWith(piece)) return 0;
  let start = all.lastIndexOf(piece);
  // In `<<`, the parser returns the first character, because the second may begin a call.
  while (start >= piece.length && all.startsWith(piece, start - piece.length)) start -= piece.length;
  return start;
}
