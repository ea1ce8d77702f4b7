/** A position in a JSON string: 0 between characters, otherwise a state inside a character or escape. */
export type StringPosition = number;

const betweenCharacters = 0;
/** 1 to 3: number of UTF-8 bytes that are still missing. */
const escape = 4;
/** 5 to 8: 1 to 4 hexadecimal digits of an escape are still missing. */
const digits = 4;

const quote = 0x22;
const backslash = 0x5c;
const unicode = 0x75;

export interface StringScan {
  /** Number of characters that start in the scanned bytes. */
  readonly characters: number;
  readonly isClosed: boolean;
  readonly position: StringPosition;
}

/** Scans bytes inside a JSON string up to its closing quote. The bytes must be valid. */
export function scanString(
  bytes: Uint8Array,
  offset: number,
  end: number,
  start: StringPosition = betweenCharacters,
): StringScan {
  let characters = 0;
  let position = start;
  for (let at = offset; at < end; at++) {
    const byte = bytes[at] as number;
    if (position === escape) position = byte === unicode ? digits + 4 : betweenCharacters;
    else if (position !== betweenCharacters)
      position = position === digits + 1 ? betweenCharacters : position - 1;
    else if (byte === quote) return { characters, isClosed: true, position };
    else {
      characters++;
      if (byte === backslash) position = escape;
      else if (byte >= 0xf0) position = 3;
      else if (byte >= 0xe0) position = 2;
      else if (byte >= 0xc0) position = 1;
    }
  }
  return { characters, isClosed: false, position };
}
