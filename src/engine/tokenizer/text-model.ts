/** A tokenizer without its special tokens: what differs between byte-level BPE, SentencePiece and WordPiece. */
export interface TextModel {
  /**
   * Appends the ids of a text without special tokens.
   * @param first whether the text begins the prompt; otherwise it follows a special token
   */
  encode(text: string, first: boolean, ids: number[]): void;
  /** The bytes that a token which is no special one stands for. */
  bytes(id: number): Uint8Array;
}
