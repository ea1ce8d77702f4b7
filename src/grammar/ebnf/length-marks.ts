/**
 * Inclusive bounds of a string's length in characters; `maxLength` may be Infinity. Counting in rules costs XGrammar a
 * mask for each count. A string whose only constraint is its length is therefore written without bounds after a length
 * mark. The token matcher accepts the mark and counts the characters.
 */
export interface LengthBounds {
  readonly minLength: number;
  readonly maxLength: number;
}

/** A mark is this byte, which no text contains, and one more byte. */
export const markByte = 0xff;
/** Maximum number of marks in one grammar. */
export const maxMarks = 64;
/**
 * The second byte of a mark. The mark with the index `maxMarks` is in no grammar; a mask allows it only in free text.
 */
export const markCharacter = (index: number): string => String.fromCharCode(0x30 + index);
