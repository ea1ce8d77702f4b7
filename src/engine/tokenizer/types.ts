import type { FillInTheMiddle } from './fill-in-the-middle.ts';

export interface EncodeOptions {
  /** Add the model's own leading and trailing special tokens (BOS, EOS) as its metadata says. Default false. */
  addSpecial?: boolean;
  /** Read special and control tokens written in the text (`<|im_start|>`) as tokens. Default false: they are text. */
  parseSpecial?: boolean;
  /** With `parseSpecial`: parts of the text, in order, where special and control tokens are not read all the same. */
  literal?: readonly (readonly [start: number, end: number])[];
}

export interface Tokenizer {
  /** `tokenizer.ggml.model`: 'gpt2' (byte-level BPE), 'llama' (SentencePiece), 'bert' (WordPiece), 't5' (unigram). */
  readonly kind: string;
  readonly vocabSize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Every token that ends an answer (EOS, EOT, EOM), by metadata and by name. */
  readonly endIds: ReadonlySet<number>;
  /** Of a model that fills in what is missing in a text. */
  readonly fim?: FillInTheMiddle | undefined;
  encode(text: string, options?: EncodeOptions): number[];
  /** Special (control) tokens are left out unless `special` is set. Invalid UTF-8 becomes U+FFFD. */
  decode(ids: readonly number[], options?: { special?: boolean }): string;
  /** The bytes a token stands for; empty for control tokens. */
  tokenBytes(id: number): Uint8Array;
  /** The token as the vocabulary writes it (`<|im_end|>`, `Ġhello`). */
  tokenText(id: number): string;
  isControl(id: number): boolean;
  /** A decoder that never splits a character: bytes of an unfinished one wait for the next token. */
  stream(): TokenStream;
}

export interface TokenStream {
  /** The text that became certain with this token; may be empty. */
  push(id: number): string;
  /** What is left; unfinished bytes become U+FFFD. */
  flush(): string;
}

export interface ChatMessage {
  role: string;
  content: unknown;
  [member: string]: unknown;
}

export interface ChatTemplate {
  /** The Jinja source. */
  readonly source: string;
  /**
   * The prompt text of a conversation. Throws `ChatTemplateError` with the template's own words when it raises
   * or uses something unsupported; never renders something else instead.
   */
  render(input: {
    messages: readonly ChatMessage[];
    tools?: readonly unknown[];
    addGenerationPrompt?: boolean;
    /** Further template variables (`enable_thinking` ...). */
    variables?: Readonly<Record<string, unknown>>;
  }): string;
}
