import type { Tokenizer } from '../engine/index.ts';
import { sleep } from '../util/sleep.ts';

const sliceLength = 8192;
/** Additional tokens that one cut may cause: a special token that is cut in two is encoded by characters. */
const maxTokensPerCut = 32;

/**
 * Estimates the token count of a text that certainly exceeds the limit; undefined when the text may fit. Encodes the
 * text in slices and yields to the event loop between them, because encoding 10 MB at once would block for seconds.
 * Stops as soon as the limit is certainly exceeded.
 * @param limit tokens that the context holds
 * @param options must equal the options of the later encoding; otherwise a text that fits could be rejected
 */
export async function estimateTokensOverLimit(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  options: { parseSpecial?: boolean } = {},
): Promise<number | undefined> {
  // A token has at least one byte, and a UTF-16 unit at least one byte in UTF-8, so a text of this length may fit.
  if (text.length <= Math.max(limit, sliceLength)) return undefined;
  let minTokenCount = 0;
  for (let at = 0; at < text.length; at += sliceLength) {
    const slice = text.slice(at, at + sliceLength);
    minTokenCount += Math.max(0, tokenizer.encode(slice, options).length - maxTokensPerCut);
    if (minTokenCount > limit)
      return Math.round((minTokenCount * text.length) / Math.min(text.length, at + sliceLength));
    // A timer, because only Node has setImmediate.
    await sleep(0);
  }
  return undefined;
}
