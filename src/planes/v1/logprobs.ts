import { z } from 'zod';
import type { TokenLogprob, Tokenizer } from '../../engine/index.ts';
import { bytesOf, finite } from '../turn/logprobs.ts';

const tokenText = {
  token: z.string().describe('Its text; U+FFFD where it holds a part of a character.'),
  bytes: z.array(z.int()),
};
const token = { ...tokenText, logprob: z.number() };
const sampled = { ...tokenText, prob: z.number().describe('With post_sampling_probs.') };

export const chatLogprobs = z.object({
  content: z.array(
    z.union([
      z.object({ ...token, top_logprobs: z.array(z.object(token)) }),
      z.object({ ...sampled, top_probs: z.array(z.object(sampled)) }),
    ]),
  ),
  refusal: z.null(),
});

export const textLogprobs = z.object({
  tokens: z.array(z.string()).describe('`bytes:` and the bytes where one holds a part of a character.'),
  token_logprobs: z.array(z.number().nullable()).describe('Null for the first token of all.'),
  top_logprobs: z
    .array(z.record(z.string(), z.number()).nullable())
    .describe('The likeliest tokens at each place, and the one that stands there.'),
  text_offset: z
    .array(z.int())
    .describe("Where each token begins in the choice's text, in characters (Unicode code points)."),
});
export type TextLogprobs = z.infer<typeof textLogprobs>;

/** Characters as OpenAI's wire counts them: code points. */
export function countOf(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** Writes the tokens of one choice of the legacy wire, piece by piece. */
export class TextLogprobWriter {
  readonly #tokenizer: Tokenizer;
  readonly #decoder;
  #offset = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
    this.#decoder = tokenizer.stream();
  }

  /** @param shown whether the text of control tokens is part of the choice's text */
  write(
    ids: readonly number[],
    entries: readonly (TokenLogprob | null)[],
    shown: (index: number) => boolean = () => false,
  ): TextLogprobs {
    const written: TextLogprobs = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
    for (const [index, id] of ids.entries()) {
      const entry = entries[index] ?? null;
      written.tokens.push(this.#name(id));
      written.token_logprobs.push(entry && finite(entry.logprob));
      written.top_logprobs.push(entry && this.#top(entry));
      written.text_offset.push(this.#offset);
      this.#offset += this.#length(id, shown(index));
    }
    return written;
  }

  #length(id: number, shown: boolean): number {
    if (!this.#tokenizer.isControl(id)) return countOf(this.#decoder.push(id));
    return shown ? countOf(this.#tokenizer.tokenText(id)) : 0;
  }

  #top({ id, logprob, top }: TokenLogprob): Record<string, number> {
    const named = new Map<string, number>();
    // Of two tokens with the same text the likelier one is told.
    for (const one of top.toReversed()) named.set(this.#name(one.id), finite(one.logprob));
    named.set(this.#name(id), finite(logprob));
    return Object.fromEntries(named);
  }

  #name(id: number): string {
    const bytes = bytesOf(this.#tokenizer, id);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
    }
  }
}
