import { z } from 'zod';
import type { TokenLogprob, Tokenizer } from '../../engine/index.ts';
import { toProbability } from '../turn/post-sampling.ts';

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
export type ChatLogprobs = z.infer<typeof chatLogprobs>;

/** JSON has no infinity; OpenAI's wire writes what is as good as impossible like this. */
const leastLogprob = -9999;
const finite = (logprob: number): number => Math.max(logprob, leastLogprob);

export function toChatLogprobs(tokenizer: Tokenizer, entries: readonly TokenLogprob[]) {
  const written = ({ id, logprob }: Entry) => {
    const { token: text, bytes } = tokenOf(tokenizer, id);
    return { token: text, logprob: finite(logprob), bytes };
  };
  const content = entries.map((entry) => ({ ...written(entry), top_logprobs: entry.top.map(written) }));
  return { content, refusal: null };
}

/** llama.cpp's `post_sampling_probs`. */
export function toChatProbabilities(tokenizer: Tokenizer, entries: readonly TokenLogprob[]) {
  const written = ({ id, logprob }: Entry) => ({
    ...tokenOf(tokenizer, id),
    prob: toProbability(logprob),
  });
  const content = entries.map((entry) => ({ ...written(entry), top_probs: entry.top.map(written) }));
  return { content, refusal: null };
}

type Entry = Pick<TokenLogprob, 'id' | 'logprob'>;

function tokenOf(tokenizer: Tokenizer, id: number): { token: string; bytes: number[] } {
  const bytes = bytesOf(tokenizer, id);
  return { token: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes), bytes: [...bytes] };
}

function bytesOf(tokenizer: Tokenizer, id: number): Uint8Array {
  if (tokenizer.isControl(id)) return new TextEncoder().encode(tokenizer.tokenText(id));
  return tokenizer.tokenBytes(id);
}

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
