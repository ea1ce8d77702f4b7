import type { Constraint } from '../engine/index.ts';

/** What an answer must look like. */
export type GrammarSource =
  /** One JSON object. */
  | { readonly kind: 'json' }
  | { readonly kind: 'json_schema'; readonly schema: unknown }
  /** EBNF as XGrammar and llama.cpp (GBNF) write it; the start rule is `root` unless named. */
  | { readonly kind: 'ebnf'; readonly text: string; readonly root?: string }
  | { readonly kind: 'regex'; readonly pattern: string }
  /** One of these texts. */
  | { readonly kind: 'choice'; readonly texts: readonly string[] }
  /** Text around tagged parts: see `StructuralFormat`. */
  | { readonly kind: 'structural'; readonly format: StructuralFormat };

/** XGrammar's structural tags, under its own names. With `at_least_one` a tag stands at the very beginning. */
export type StructuralFormat =
  | { readonly type: 'const_string'; readonly value: string }
  | {
      readonly type: 'json_schema';
      readonly json_schema: unknown;
      /** What is kept instead where this schema cannot be; absent: it is refused then. */
      readonly otherwise?: unknown;
    }
  | { readonly type: 'grammar'; readonly grammar: string }
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'any_text'; readonly excludes?: readonly string[] }
  | { readonly type: 'sequence'; readonly elements: readonly StructuralFormat[] }
  | { readonly type: 'or'; readonly elements: readonly StructuralFormat[] }
  | StructuralTag
  /** Free text in which a tag's content is bound once its trigger, a beginning of its `begin`, was written. */
  | {
      readonly type: 'triggered_tags';
      readonly triggers: readonly string[];
      readonly tags: readonly StructuralTag[];
      readonly at_least_one?: boolean;
      readonly stop_after_first?: boolean;
    }
  | {
      readonly type: 'tags_with_separator';
      readonly tags: readonly StructuralTag[];
      readonly separator: string;
      readonly at_least_one?: boolean;
      readonly stop_after_first?: boolean;
    };

export interface StructuralTag {
  readonly type: 'tag';
  readonly begin: string;
  readonly content: StructuralFormat;
  readonly end: string | readonly string[];
}

export type GrammarErrorCode =
  /** A JSON schema that cannot be kept: it uses a keyword that the grammar would not enforce. */
  | 'unsupported_schema'
  /** A text that is no grammar, schema or expression. */
  | 'invalid_grammar'
  /** Compiling it took too long or too much memory. */
  | 'grammar_too_complex';

/** A grammar that is refused; the message says why, and where in it. */
export class GrammarError extends Error {
  readonly code: GrammarErrorCode;
  /** JSON Pointer into a schema. */
  readonly path: string | undefined;
  constructor(code: GrammarErrorCode, message: string, options: { path?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = 'GrammarError';
    this.code = code;
    this.path = options.path;
  }
}

/** A grammar over one model's tokens, ready for any number of answers. */
export interface Grammar {
  /** For one answer. */
  start(): Constraint;
}

/** Compiles grammars for one model, and keeps the latest ones. */
export interface Grammars {
  /**
   * @param visible control tokens that the grammar may ask for by their text; all others are never allowed
   * @throws GrammarError
   */
  compile(
    source: GrammarSource,
    options?: { visible?: ReadonlySet<number>; signal?: AbortSignal },
  ): Promise<Grammar>;
  close(): Promise<void>;
}
