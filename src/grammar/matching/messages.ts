import type { GrammarErrorCode, GrammarSource } from '../types.ts';

/** The tokens of a model, as they cross to where grammars are matched. */
export interface Vocabulary {
  /** The bytes of all tokens, one after the other; nothing for control tokens. */
  readonly bytes: Uint8Array;
  /** Where each token's bytes end. */
  readonly ends: Uint32Array;
  /** Of the model: it may have more rows than tokens. */
  readonly size: number;
  readonly endIds: readonly number[];
}

/** A question to a grammar worker. Numbers name what was made there before. */
export type Question =
  /** Once, before all others. */
  | { readonly kind: 'vocabulary'; readonly vocabulary: Vocabulary }
  /** @property visible control tokens that have a text for this grammar */
  | {
      readonly kind: 'compile';
      readonly grammar: number;
      readonly source: GrammarSource;
      readonly visible: readonly (readonly [id: number, text: string])[];
    }
  | { readonly kind: 'forget'; readonly grammar: number }
  /** @property accepted the tokens so far */
  | {
      readonly kind: 'start';
      readonly matcher: number;
      readonly grammar: number;
      readonly accepted: readonly number[];
    }
  | { readonly kind: 'next'; readonly matcher: number; readonly accepted: readonly number[] }
  | { readonly kind: 'stop'; readonly matcher: number };

/** The answer to one: a mask for `next`, the bytes of memory in use for `compile`. */
export type Reply =
  | { readonly call: number; readonly value: Uint32Array | number | undefined }
  | { readonly call: number; readonly failed: Failure };

export type Failure =
  /** The request is at fault. */
  | {
      readonly kind: 'refused';
      readonly code: GrammarErrorCode;
      readonly message: string;
      readonly path: string | undefined;
    }
  /** A token that the grammar does not allow. */
  | { readonly kind: 'token'; readonly message: string }
  /** The library gave up; nothing in it can be trusted any more. */
  | { readonly kind: 'broken'; readonly message: string };

/** A worker as its owner sees it: a thread of Node, or a browser's worker. */
export interface GrammarWorker {
  post(message: { call: number; question: Question }, transfer: readonly ArrayBuffer[]): void;
  onReply(listener: (reply: Reply) => void): void;
  /** It ended by itself, or never began. */
  onEnd(listener: (why: string) => void): void;
  terminate(): void;
}
