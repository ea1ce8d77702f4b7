/**
 * GPT-2's byte alphabet, which writes every byte as a visible character: printable Latin-1 bytes are themselves, the
 * 68 others are U+0100 and following (a space is `Ġ`, a line feed is `Ċ`).
 */
export const byteToChar: readonly string[] = (() => {
  const chars: string[] = [];
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const isVisible =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
    chars.push(String.fromCharCode(isVisible ? byte : next++));
  }
  return chars;
})();

const charToByte: ReadonlyMap<string, number> = new Map(byteToChar.map((char, byte) => [char, byte]));

/** The bytes of a token text, or undefined when it has a character outside the alphabet. */
export function decodeByteAlphabet(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = charToByte.get(text.charAt(i));
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}

const utf8 = new TextEncoder();

/** Writes the UTF-8 bytes of a text in the byte alphabet. */
export function encodeByteAlphabet(text: string): string {
  let encoded = '';
  for (const byte of utf8.encode(text)) encoded += byteToChar[byte];
  return encoded;
}
