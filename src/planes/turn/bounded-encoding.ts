/** Encodes many texts, or long ones, without keeping other requests waiting. */

/** Characters that are encoded before yielding to the event loop. */
const charactersPerYield = 8192;
/** Characters that are read of a text, for each token of the context. Text has about four characters per token. */
const maxCharactersPerToken = 256;
/** Characters per token that are encoded at first of a text that is truncated. */
const firstCharactersPerToken = 16;
/** Tokens at the end of a slice that may differ from those of the whole text. */
const tokensNearCut = 32;

/**
 * Most characters of a text. A text that has more may have few tokens, such as one of control characters, but encoding
 * it blocks other requests.
 */
export const maxCharacters = (contextLength: number): number => contextLength * maxCharactersPerToken;

export const tooManyCharacters = (text: string, contextLength: number): string =>
  `${text.length} characters (at most ${maxCharacters(contextLength)} are read)`;

/** Called before each piece of work with its size. */
export type Pace = (size: number) => Promise<void>;

/** Lets other requests run whenever work of so much size was done. */
export function createPace(sizePerYield = charactersPerYield): Pace {
  let size = 0;
  return async (next) => {
    size += next;
    if (size <= sizePerYield) return;
    size = 0;
    await new Promise((resolve) => setImmediate(resolve));
  };
}

/**
 * The tokens of a text that is truncated: all where it has up to `limit`, else more than `limit` of its first ones.
 * Characters per token have no upper bound, so a slice is encoded, and a longer one while it has too few tokens.
 * @returns undefined where the text is longer than the characters that are read, and those have up to `limit` tokens
 */
export async function encodeBeginning(
  text: string,
  limit: number,
  {
    encode,
    contextLength,
    pace,
  }: { encode: (text: string) => readonly number[]; contextLength: number; pace: Pace },
): Promise<readonly number[] | undefined> {
  const wanted = limit + tokensNearCut;
  const readable = Math.min(text.length, maxCharacters(contextLength));
  for (let length = wanted * firstCharactersPerToken; ; length *= 2) {
    const slice = text.slice(0, Math.min(length, readable));
    await pace(slice.length);
    const tokens = encode(slice);
    if (tokens.length > wanted || slice.length === text.length) return tokens;
    if (slice.length === readable) return tokens.length > limit ? tokens : undefined;
  }
}
