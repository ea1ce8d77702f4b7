import type { GrammarErrorCode, GrammarSource } from '../types.ts';

/** The tokens of a model, as sent to a grammar worker. */
export interface GrammarVocabulary {
  /** The concatenated bytes of all tokens; control tokens have none. */
  readonly bytes: Uint8Array;
  /** End offset of each token's bytes. */
  readonly ends: Uint32Array;
  /** Size of the model's output, which may exceed the number of tokens. */
  readonly size: number;
  readonly endIds: readonly number[];
}

/** A request to a grammar worker. Grammars and matchers are identified by numbers. */
export type GrammarRequest =
  /** Sent once, before all other requests. */
  | { readonly kind: 'vocabulary'; readonly vocabulary: GrammarVocabulary }
  /** @property visible control tokens that this grammar may require by their text */
  | {
      readonly kind: 'compile';
      readonly grammar: number;
      readonly source: GrammarSource;
      readonly visible: readonly (readonly [id: number, text: string])[];
    }
  | { readonly kind: 'forget'; readonly grammar: number }
  /** @property accepted all tokens so far */
  | {
      readonly kind: 'start';
      readonly matcher: number;
      readonly grammar: number;
      readonly accepted: readonly number[];
    }
  | { readonly kind: 'next'; readonly matcher: number; readonly accepted: readonly number[] }
  | { readonly kind: 'stop'; readonly matcher: number };

/** The reply to a request: a mask for `next`, the bytes of memory in use for `compile`. */
export type GrammarReply =
  | { readonly call: number; readonly value: Uint32Array | number | undefined }
  | { readonly call: number; readonly failed: Failure };

export type Failure =
  /** The grammar is rejected. */
  | {
      readonly kind: 'refused';
      readonly code: GrammarErrorCode;
      readonly message: string;
      readonly path: string | undefined;
    }
  /** A token that the grammar does not allow. */
  | { readonly kind: 'token'; readonly message: string }
  /** The library failed and cannot be used any more. */
  | { readonly kind: 'broken'; readonly message: string };

/** A worker of the host: a Node worker thread or a browser worker. */
export interface GrammarWorker {
  post(message: { call: number; question: GrammarRequest }, transfer: readonly ArrayBuffer[]): void;
  onReply(listener: (reply: GrammarReply) => void): void;
  /** The worker ended by itself or did not start. */
  onEnd(listener: (reason: string) => void): void;
  terminate(): void;
}
