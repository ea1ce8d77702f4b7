import type { Model } from '../catalog/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import type { RequestFacts } from '../../wires/core/wire.ts';

/** Upper limit of a token's length: the longest tokens of known vocabularies are runs of 128 spaces. */
const maxBytesPerToken = 128;
/**
 * Upper limit of words in a token, on average. Current tokenizers end a token at the space between words; newer ones join
 * two or three words in places, but fewer than two on average.
 */
const maxWordsPerToken = 2;

/** Members that are not counted: providers may drop them (reasoning of earlier turns), or they are not text. */
const uncountedMembers = new Set(
  (
    'reasoning reasoning_content reasoning_details thinking summary encrypted_content ' +
    'signature data file_data image_url url cache_control'
  ).split(' '),
);
const uncountedTypes = new Set<unknown>(['reasoning', 'thinking', 'redacted_thinking', 'compaction']);

/**
 * Rejects prompts that certainly exceed a model's context window, which saves a useless upstream request. In doubt the
 * provider decides, because only it has the tokenizer.
 * @param prompts request members with their prompts; each prompt has a window of its own
 * @returns checks a model, for any number of them: the prompts are read once. @throws WireError 400 `context_length_exceeded`
 */
export function contextWindowCheck(
  { textBytes }: Pick<RequestFacts, 'textBytes'>,
  prompts: Readonly<Record<string, readonly unknown[]>>,
): (model: Pick<Model, 'id' | 'contextWindow'>) => void {
  let sizes: readonly { readonly param: string; readonly tokens: number }[] | undefined;
  return ({ id, contextWindow }) => {
    // A token has at least one byte.
    if (textBytes <= contextWindow) return;
    sizes ??= Object.entries(prompts).flatMap(([param, inputs]) =>
      inputs.map((input) => ({ param, tokens: minTokens(input) })),
    );
    const tooLong = sizes.find(({ tokens }) => tokens > contextWindow);
    if (!tooLong) return;
    const { param, tokens } = tooLong;
    throw invalidRequest(
      `This prompt has at least ${tokens} tokens; the context window of ${id} has ${contextWindow}. Shorten the prompt, or use a model with a larger context window.`,
      { code: 'context_length_exceeded', param },
    );
  };
}

/** The minimum number of tokens of a prompt: a text, a list of token ids, or messages of any wire. */
function minTokens(prompt: unknown): number {
  const size = { bytes: 0, words: 0 };
  if (isTokenIds(prompt)) return prompt.length;
  addSize(prompt, size);
  return Math.ceil(Math.max(size.bytes / maxBytesPerToken, size.words / maxWordsPerToken));
}

const isTokenIds = (prompt: unknown): prompt is readonly number[] =>
  Array.isArray(prompt) && typeof prompt[0] === 'number';

/** Nesting limit. Real prompts have a few levels; anything deeper is not counted. */
const maxDepth = 64;

function addSize(value: unknown, size: { bytes: number; words: number }, depth = 0): void {
  if (depth > maxDepth) return;
  if (typeof value === 'string') {
    size.bytes += Buffer.byteLength(value);
    size.words += countFollowingWords(value);
  } else if (Array.isArray(value)) {
    for (const each of value) addSize(each, size, depth + 1);
  } else if (typeof value === 'object' && value !== null) {
    if ('type' in value && uncountedTypes.has(value.type)) return;
    for (const [name, member] of Object.entries(value))
      if (!uncountedMembers.has(name)) addSize(member, size, depth + 1);
  }
}

/** Counts words that follow another word after white space only: prose, not the names and values of JSON. */
function countFollowingWords(text: string): number {
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
