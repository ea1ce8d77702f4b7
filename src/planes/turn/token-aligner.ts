import type { TokenLogprob, Tokenizer } from '../../engine/index.ts';

/** Limit of tokens that are kept when the parser rewrote their text; they may match the text that follows. */
const maxLeft = 64;

interface PendingToken {
  readonly text: string;
  readonly logprob: TokenLogprob | undefined;
  /** The rest of a token that was already counted for the preceding text. */
  readonly isCounted?: true;
}

export interface AlignedTokens {
  readonly tokens: number;
  readonly logprobs: readonly TokenLogprob[];
}

/**
 * Aligns an answer's tokens with the text that a parser returns, so that each piece of text gets the tokens it consists
 * of. Tokens between the pieces are markup (`</think>`) and are counted for none.
 */
export class TokenAligner {
  readonly #tokenizer: Tokenizer;
  readonly #visible: ReadonlySet<number>;
  readonly #decoder;
  #pendingTokens: PendingToken[] = [];

  /** @param visible control tokens whose text the parser receives */
  constructor(tokenizer: Tokenizer, visible: ReadonlySet<number>) {
    this.#tokenizer = tokenizer;
    this.#visible = visible;
    this.#decoder = tokenizer.stream();
  }

  /** @returns the number of characters that the token completed; 0 for a control token that is not visible */
  push(id: number, logprob: TokenLogprob | undefined): number {
    const text = this.#tokenText(id);
    if (text !== undefined) this.#pendingTokens.push({ text, logprob });
    return text?.length ?? 0;
  }

  /**
   * Returns the tokens of a piece of text that the parser returned as early as it could; tokens before the piece are
   * dropped.
   * @param unparsedLength characters at the end that the parser has not received
   */
  align(text: string, unparsedLength = 0): AlignedTokens {
    const all = this.#pendingText(unparsedLength);
    const start = findPiece(text, all);
    // The parser changed the text, so all remaining tokens are returned.
    const [from, to] = start === -1 ? [0, all.length + 1] : [start, start + text.length];
    const logprobs: TokenLogprob[] = [];
    let at = 0;
    let tokens = 0;
    let usedCount = 0;
    let rest = '';
    for (const token of this.#pendingTokens) {
      if (at >= to) break;
      const end = at + token.text.length;
      usedCount += 1;
      rest = token.text.slice(to - at);
      // A token without text contains the first bytes of a character.
      if (!token.isCounted && (end > from || (end === at && at >= from))) {
        tokens += 1;
        if (token.logprob) logprobs.push(token.logprob);
      }
      at = end;
    }
    const remaining = this.#pendingTokens.slice(usedCount);
    this.#pendingTokens =
      rest === '' ? remaining : [{ text: rest, logprob: undefined, isCounted: true }, ...remaining];
    return { tokens, logprobs };
  }

  /** Skips a text whose tokens are not needed, where the parser returned it unchanged. */
  skip(text: string, unparsedLength = 0): void {
    if (this.#pendingText(unparsedLength).includes(text)) this.align(text, unparsedLength);
    else this.#pendingTokens = this.#pendingTokens.slice(-maxLeft);
  }

  #pendingText(unparsedLength: number): string {
    const all = this.#pendingTokens.map((token) => token.text).join('');
    return all.slice(0, Math.max(0, all.length - unparsedLength));
  }

  #tokenText(id: number): string | undefined {
    if (!this.#tokenizer.isControl(id)) return this.#decoder.push(id);
    return this.#visible.has(id) ? this.#tokenizer.tokenText(id) : undefined;
  }
}

/**
 * Finds the start of a piece. After markup it is the last occurrence, extended backwards over adjacent repetitions,
 * because the markup may contain the same text.
 */
function findPiece(piece: string, all: string): number {
  if (all.startsWith(piece)) return 0;
  let start = all.lastIndexOf(piece);
  // In `<<`, the parser returns the first character, because the second may begin a call.
  while (start >= piece.length && all.startsWith(piece, start - piece.length)) start -= piece.length;
  return start;
}
