/** GPT-2's byte alphabet: printable Latin-1 bytes are themselves, the others are U+0100 and following. */
export const byteToChar: readonly string[] = (() => {
  const isVisible = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isVisible(byte) ? byte : next++));
})();
