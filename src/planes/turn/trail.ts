import type { TokenLogprob, Tokenizer } from '../../engine/index.ts';

/** Tokens of a text that its parser wrote anew, which may still be looked at for what follows it. */
const mostLeft = 64;

interface Step {
  readonly text: string;
  readonly logprob: TokenLogprob | undefined;
  /** The rest of a token that the text before has already. */
  readonly spent?: true;
}

export interface Taken {
  readonly tokens: number;
  readonly logprobs: readonly TokenLogprob[];
}

/**
 * An answer's tokens on their way through a parser, so that each piece of text it hands out finds the tokens it was
 * made of. Those between the pieces are markup (`</think>`) and belong to none.
 */
export class TokenTrail {
  readonly #tokenizer: Tokenizer;
  readonly #visible: ReadonlySet<number>;
  readonly #decoder;
  #steps: Step[] = [];

  /** @param visible control tokens whose text the parser sees */
  constructor(tokenizer: Tokenizer, visible: ReadonlySet<number>) {
    this.#tokenizer = tokenizer;
    this.#visible = visible;
    this.#decoder = tokenizer.stream();
  }

  /** @returns the characters that became certain with it; a control token that is not seen has none */
  push(id: number, logprob: TokenLogprob | undefined): number {
    const text = this.#textOf(id);
    if (text !== undefined) this.#steps.push({ text, logprob });
    return text?.length ?? 0;
  }

  /**
   * The tokens of a piece of text that the parser handed out as soon as it could; what stands before it is left
   * behind.
   * @param ahead characters at the end that the parser has not seen
   */
  take(text: string, ahead = 0): Taken {
    const all = this.#text(ahead);
    const start = placeOf(text, all);
    // A parser that changed the text: then the tokens are what there is.
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
      // One without a text of its own holds the first bytes of a character.
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

  /** Leaves a text behind whose tokens nobody asks for, where it was written as it stands. */
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

/** Where a piece begins. Behind markup it is the last of its kind, with its like before it: markup may hold the same text. */
function placeOf(piece: string, all: string): number {
  if (all.startsWith(piece)) return 0;
  let start = all.lastIndexOf(piece);
  // `<<`: the parser hands out the first one, as the second one may begin a call.
  while (start >= piece.length && all.startsWith(piece, start - piece.length)) start -= piece.length;
  return start;
}
