import type { Tokenizer } from '../engine/index.ts';
import { pause } from '../util/pause.ts';

const sliceLength = 8192;
/** Tokens that a cut may make of one: a special token cut in two falls into its characters. */
const cutTokens = 32;

/**
 * About how many tokens a text has that cannot fit, found without encoding it as a whole: encoding 10 MB takes seconds,
 * and nothing else would run meanwhile. Encodes slices, lets others run between them, and stops once the limit is
 * exceeded for sure; undefined: it may fit.
 * @param limit tokens the context holds
 * @param options as the text will be encoded; read otherwise it may have more tokens and be refused though it fits
 */
export async function overlong(
  tokenizer: Tokenizer,
  text: string,
  limit: number,
  options: { parseSpecial?: boolean } = {},
): Promise<number | undefined> {
  // A token is at least a byte, and a UTF-16 unit is at least one byte: so long a text may fit.
  if (text.length <= Math.max(limit, sliceLength)) return undefined;
  let least = 0;
  for (let at = 0; at < text.length; at += sliceLength) {
    const slice = text.slice(at, at + sliceLength);
    least += Math.max(0, tokenizer.encode(slice, options).length - cutTokens);
    if (least > limit) return Math.round((least * text.length) / Math.min(text.length, at + sliceLength));
    // A timer, because setImmediate is Node's alone.
    await pause(0);
  }
  return undefined;
}
