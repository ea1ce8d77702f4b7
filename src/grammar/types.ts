import type { Constraint } from '../engine/index.ts';

/** A constraint of an answer. */
export type GrammarSource =
  /** One JSON object. */
  | { readonly kind: 'json' }
  | { readonly kind: 'json_schema'; readonly schema: unknown }
  /** EBNF of XGrammar and llama.cpp (GBNF); the start rule is `root` by default. */
  | { readonly kind: 'ebnf'; readonly text: string; readonly root?: string }
  | { readonly kind: 'regex'; readonly pattern: string }
  /** One of these texts. */
  | { readonly kind: 'choice'; readonly texts: readonly string[] }
  /** Text around tagged parts: see `StructuralFormat`. */
  | { readonly kind: 'structural'; readonly format: StructuralFormat };

/** XGrammar's structural tags, with its names. With `at_least_one`, the text starts with a tag. */
export type StructuralFormat =
  | { readonly type: 'const_string'; readonly value: string }
  | {
      readonly type: 'json_schema';
      readonly json_schema: unknown;
      /** Schema to enforce instead if this one cannot be enforced. Without it, such a schema is rejected. */
      readonly otherwise?: unknown;
    }
  | { readonly type: 'grammar'; readonly grammar: string }
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'any_text'; readonly excludes?: readonly string[] }
  | { readonly type: 'sequence'; readonly elements: readonly StructuralFormat[] }
  | { readonly type: 'or'; readonly elements: readonly StructuralFormat[] }
  | StructuralTag
  /** Free text with tags. A trigger is a prefix of a tag's `begin`; after it, the tag's content is constrained. */
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
  /** A JSON schema with a keyword that the grammar cannot enforce. */
  | 'unsupported_schema'
  /** Invalid grammar or regular expression syntax. */
  | 'invalid_grammar'
  /** Compiling took too much time or memory. */
  | 'grammar_too_complex';

/** A rejected grammar. The message says why and where. */
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

/** A grammar that is compiled for the tokens of a model and can be used for any number of answers. */
export interface Grammar {
  /** Creates the constraint of one answer. */
  start(): Constraint;
}

/** Compiles grammars for one model and caches the most recent ones. */
export interface GrammarService {
  /**
   * @param visible control tokens that the grammar may require by their text; all others are never allowed
   * @throws GrammarError
   */
  compile(
    source: GrammarSource,
    options?: { visible?: ReadonlySet<number>; signal?: AbortSignal },
  ): Promise<Grammar>;
  close(): Promise<void>;
}
