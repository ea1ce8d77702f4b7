/** An ASCII character escaped for JSON (also nested JSON) or for a URL. */
const escapePattern = /\\{1,8}u00([2-7][\da-f])|%([2-7][\da-f])/gi;

/** A text with its escapes decoded. */
export interface DecodedText {
  readonly text: string;
  /** Index in the original text of each character, and of the end. */
  readonly sourceIndices: Uint32Array;
}

/** Decodes escapes of printable ASCII characters. Undefined if there are none. */
export function decodeEscapes(text: string): DecodedText | undefined {
  if (!/\\u00|%/i.test(text)) return undefined;
  const sourceIndices = new Uint32Array(text.length + 1);
  let [plain, done] = ['', 0];
  const copyTo = (end: number) => {
    for (let from = done; from < end; from++) sourceIndices[plain.length + from - done] = from;
    plain += text.slice(done, end);
  };
  for (const { 0: written, 1: ofJson, 2: ofUrl = '', index } of text.matchAll(escapePattern)) {
    copyTo(index);
    sourceIndices[plain.length] = index;
    plain += String.fromCodePoint(Number.parseInt(ofJson ?? ofUrl, 16));
    done = index + written.length;
  }
  if (done === 0) return undefined;
  copyTo(text.length);
  sourceIndices[plain.length] = text.length;
  return { text: plain, sourceIndices };
}
