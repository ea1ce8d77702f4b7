/** The algorithm of a tokenizer without special tokens: byte-level BPE, SentencePiece, unigram or WordPiece. */
export interface TextModel {
  /**
   * Appends the ids of a text without special tokens.
   * @param isPromptStart whether the text starts the prompt; otherwise it follows a special token
   */
  encode(text: string, isPromptStart: boolean, ids: number[]): void;
  /** The bytes of a token that is not special. */
  tokenBytes(id: number): Uint8Array;
}
