/**
 * How many characters a string may have, both ends included; `most` may be Infinity. Counting in rules costs XGrammar a
 * mask for each count, so a string whose length is all that bounds it is written without a bound, behind a mark that
 * says which lengths are meant; whoever matches tokens passes the mark and counts the characters.
 */
export interface Lengths {
  readonly least: number;
  readonly most: number;
}

/** A mark is this byte, which no text has, and one more. */
export const markByte = 0xff;
/** Marks of one grammar. */
export const mostMarks = 64;
/** The second byte of a mark. The one at `mostMarks` is in no grammar: where it fits, anything does. */
export const markCharacter = (index: number): string => String.fromCharCode(0x30 + index);
