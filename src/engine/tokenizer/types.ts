import type { FillInTheMiddleTokens } from './fill-in-the-middle.ts';

export interface EncodeOptions {
  /** Add the leading and trailing special tokens (BOS, EOS) that the model's metadata requires. Default false. */
  addSpecial?: boolean;
  /** Parse special and control tokens written in the text (`<|im_start|>`) as tokens. Default false: they are text. */
  parseSpecial?: boolean;
  /** With `parseSpecial`: ranges of the text, in order, in which special and control tokens are still text. */
  literal?: readonly (readonly [start: number, end: number])[];
}

export interface Tokenizer {
  /** `tokenizer.ggml.model`: 'gpt2' (byte-level BPE), 'llama' (SentencePiece), 'bert' (WordPiece), 't5' (unigram). */
  readonly kind: string;
  readonly vocabSize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Every token that ends a response (EOS, EOT, EOM), by metadata and by text. */
  readonly endIds: ReadonlySet<number>;
  /** Fill-in-the-middle tokens; undefined when the model does not have them. */
  readonly fim?: FillInTheMiddleTokens | undefined;
  encode(text: string, options?: EncodeOptions): number[];
  /** Omits special (control) tokens unless `special` is set. Invalid UTF-8 becomes U+FFFD. */
  decode(ids: readonly number[], options?: { special?: boolean }): string;
  /** The bytes a token stands for; empty for control tokens. */
  tokenBytes(id: number): Uint8Array;
  /** The token's text in the vocabulary (`<|im_end|>`, `Ġhello`). */
  tokenText(id: number): string;
  isControl(id: number): boolean;
  /** Creates a streaming decoder. It holds back the bytes of an incomplete character until the next token. */
  stream(): TokenStream;
}

export interface TokenStream {
  /** Adds a token and returns the text that is now complete; may be empty. */
  push(id: number): string;
  /** Returns the rest; incomplete bytes become U+FFFD. */
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
   * Renders the prompt text of a conversation.
   * @throws ChatTemplateError with the template's message when it raises an exception or uses an unsupported feature
   */
  render(input: {
    messages: readonly ChatMessage[];
    tools?: readonly unknown[];
    addGenerationPrompt?: boolean;
    /** Additional template variables (`enable_thinking` ...). */
    variables?: Readonly<Record<string, unknown>>;
  }): string;
}
