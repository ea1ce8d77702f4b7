import type { TokenLogprob as EngineLogprob, Tokenizer } from '../../engine/index.ts';
import type { TextLogprobs, TokenLogprob } from '../../wires/core/answer.ts';

/** JSON has no infinity; OpenAI's wire writes this value for a negligible probability. */
const minLogprob = -9999;
const clampLogprob = (logprob: number): number => Math.max(logprob, minLogprob);

/** Log probabilities with the texts of their tokens, and with their ids where the wire has them. */
export function writeLogprobs(
  tokenizer: Tokenizer,
  entries: readonly EngineLogprob[],
  withIds = false,
): TokenLogprob[] {
  const toTokenLogprob = ({ id, logprob }: Pick<EngineLogprob, 'id' | 'logprob'>) => {
    const bytes = tokenBytesOf(tokenizer, id);
    const token = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
    return { ...(withIds ? { id } : {}), token, logprob: clampLogprob(logprob), bytes: [...bytes] };
  };
  return entries.map((entry) => ({ ...toTokenLogprob(entry), top_logprobs: entry.top.map(toTokenLogprob) }));
}

function tokenBytesOf(tokenizer: Tokenizer, id: number): Uint8Array {
  if (tokenizer.isControl(id)) return new TextEncoder().encode(tokenizer.tokenText(id));
  return tokenizer.tokenBytes(id);
}

/** Counts characters as OpenAI's wire does: in code points. */
export function countCodePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Writes the log probabilities of one choice of the legacy completions wire, piece by piece. */
export class TextLogprobWriter {
  readonly #tokenizer: Tokenizer;
  readonly #decoder;
  #offset = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.stream();
  }

  /** @param isVisible whether the text of a control token is part of the choice's text */
  write(
    ids: readonly number[],
    entries: readonly (EngineLogprob | null)[],
    isVisible: (index: number) => boolean = () => false,
  ): TextLogprobs {
    const written = {
      tokens: [] as string[],
      token_logprobs: [] as (number | null)[],
      top_logprobs: [] as (Record<string, number> | null)[],
      text_offset: [] as number[],
    };
    for (const [index, id] of ids.entries()) {
      const entry = entries[index] ?? null;
      written.tokens.push(this.#tokenName(id));
      written.token_logprobs.push(entry && clampLogprob(entry.logprob));
      written.top_logprobs.push(entry && this.#topLogprobs(entry));
      written.text_offset.push(this.#offset);
      this.#offset += this.#visibleLength(id, isVisible(index));
    }
    return written;
  }

  #visibleLength(id: number, isVisible: boolean): number {
    if (!this.#tokenizer.isControl(id)) return countCodePoints(this.#decoder.push(id));
    return isVisible ? countCodePoints(this.#tokenizer.tokenText(id)) : 0;
  }

  #topLogprobs({ id, logprob, top }: EngineLogprob): Record<string, number> {
    const byName = new Map<string, number>();
    // Of two tokens with the same text, the more likely one is kept.
    for (const one of top.toReversed()) byName.set(this.#tokenName(one.id), clampLogprob(one.logprob));
    byName.set(this.#tokenName(id), clampLogprob(logprob));
    return Object.fromEntries(byName);
  }

  #tokenName(id: number): string {
    const bytes = tokenBytesOf(this.#tokenizer, id);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
    }
  }
}
