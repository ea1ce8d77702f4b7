/** A position in a JSON string: 0 between characters, otherwise a state inside a character or escape. */
export type StringPlace = number;

const between = 0;
/** 1 to 3: number of UTF-8 bytes that are still missing. */
const escape = 4;
/** 5 to 8: 1 to 4 hexadecimal digits of an escape are still missing. */
const digits = 4;

const quote = 0x22;
const backslash = 0x5c;
const unicode = 0x75;

export interface StringPart {
  /** Number of characters that start in the scanned bytes. */
  readonly characters: number;
  readonly closed: boolean;
  readonly place: StringPlace;
}

/** Scans bytes inside a JSON string up to its closing quote. The bytes must be valid. */
export function readString(
  bytes: Uint8Array,
  first: number,
  end: number,
  start: StringPlace = between,
): StringPart {
  let characters = 0;
  let place = start;
  for (let at = first; at < end; at++) {
    const byte = bytes[at] as number;
    if (place === escape) place = byte === unicode ? digits + 4 : between;
    else if (place !== between) place = place === digits + 1 ? between : place - 1;
    else if (byte === quote) return { characters, closed: true, place };
    else {
      characters++;
      if (byte === backslash) place = escape;
      else if (byte >= 0xf0) place = 3;
      else if (byte >= 0xe0) place = 2;
      else if (byte >= 0xc0) place = 1;
    }
  }
  return { characters, closed: false, place };
}
