import type { Model } from '../catalog/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';

/** No vocabulary has a longer token: those of 128 bytes are runs of spaces. */
const bytesAToken = 128;
/**
 * Tokenizers in use end a token at the blank between two words; some of those to come put two and three of them together
 * here and there, and never two on average.
 */
const wordsAToken = 2;

/** Members that providers may leave out (thoughts of earlier turns), or that are no text. */
const unread = new Set(
  (
    'reasoning reasoning_content reasoning_details thinking summary encrypted_content ' +
    'signature data file_data image_url url cache_control'
  ).split(' '),
);
const unreadTypes = new Set<unknown>(['reasoning', 'thinking', 'redacted_thinking', 'compaction']);

/**
 * Refuses what surely does not fit, so that no provider is asked for nothing. What only may be too long the provider
 * counts: nobody else has its tokenizer.
 * @param prompts members of the request, each of which fills a window by itself
 * @throws WireError 400 `context_length_exceeded`
 */
export function checkWindow(
  { id, contextWindow }: Pick<Model, 'id' | 'contextWindow'>,
  { textBytes }: Pick<RequestFacts, 'textBytes'>,
  prompts: Readonly<Record<string, readonly unknown[]>>,
): void {
  // A token has a byte at the least.
  if (textBytes <= contextWindow) return;
  for (const [param, inputs] of Object.entries(prompts))
    for (const input of inputs) {
      const tokens = leastTokens(input);
      if (tokens > contextWindow)
        throw invalidRequest(
          `This prompt has at least ${tokens} tokens, and the context window of ${id} has ${contextWindow}. Shorten it, or ask a model with a larger one.`,
          { code: 'context_length_exceeded', param },
        );
    }
}

/** What a prompt comes to at the least: a text, ids of tokens, or messages of whatever wire. */
function leastTokens(prompt: unknown): number {
  const size = { bytes: 0, words: 0 };
  if (isIds(prompt)) return prompt.length;
  measure(prompt, size);
  return Math.ceil(Math.max(size.bytes / bytesAToken, size.words / wordsAToken));
}

const isIds = (prompt: unknown): prompt is readonly number[] =>
  Array.isArray(prompt) && typeof prompt[0] === 'number';

/** Prompts are a few levels deep; what somebody nests deeper counts as nothing. */
const deepest = 64;

function measure(value: unknown, size: { bytes: number; words: number }, depth = 0): void {
  if (depth > deepest) return;
  if (typeof value === 'string') {
    size.bytes += Buffer.byteLength(value);
    size.words += followingWords(value);
  } else if (Array.isArray(value)) {
    for (const each of value) measure(each, size, depth + 1);
  } else if (typeof value === 'object' && value !== null) {
    if ('type' in value && unreadTypes.has(value.type)) return;
    for (const [name, member] of Object.entries(value))
      if (!unread.has(name)) measure(member, size, depth + 1);
  }
}

/** Words of which nothing but blanks stands before: those of prose, not the names and values of JSON. */
function followingWords(text: string): number {
  let count = 0;
  let isLetter = false;
  let isGap = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const lower = code | 0x20;
    if (lower >= 0x61 && lower <= 0x7a) {
      if (isGap) count++;
      isLetter = true;
      isGap = false;
    } else {
      const isBlank = code === 0x20 || code === 0x0a || code === 0x09 || code === 0x0d;
      isGap = isBlank && (isLetter || isGap);
      isLetter = false;
    }
  }
  return count;
}
