import type { Usage } from './types.ts';
import type { WireError } from './error.ts';
import type { Timings } from './timings-schema.ts';

export type { Timings } from './timings-schema.ts';

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export interface TokenLogprob {
  /** On llama.cpp's wire. */
  readonly id?: number;
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly Omit<TokenLogprob, 'top_logprobs'>[];
}

/** Tokens of a text that is gone on with, a place in each list for each. */
export interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  /** Where each token begins in the choice's text, in code points. */
  readonly text_offset: readonly number[];
}

export function joinedLogprobs(parts: readonly TextLogprobs[]): TextLogprobs {
  return {
    tokens: parts.flatMap(({ tokens }) => tokens),
    token_logprobs: parts.flatMap(({ token_logprobs }) => token_logprobs),
    top_logprobs: parts.flatMap(({ top_logprobs }) => top_logprobs),
    text_offset: parts.flatMap(({ text_offset }) => text_offset),
  };
}

/** What every event may carry. */
interface Common {
  /** Counted from 0, where a request asked for several answers. Default 0. */
  readonly choice?: number;
  /** Its answer's measures so far, where the request asked for progress. */
  readonly timings?: Timings;
}

/**
 * An answer as it comes, in nobody's words. A buffered answer is the list of its events. In order: at most one `start`,
 * then contents, `finish` once for each choice, `usage` any number of times anywhere, of which the last holds for all
 * choices (never to be added up); `failure` ends it, also after a `finish`.
 */
export type AnswerEvent = Common &
  (
    | { readonly type: 'start' /** The provider's id of the answer. */; readonly id?: string }
    /** The prompt while it is evaluated. */
    | {
        readonly type: 'progress';
        readonly promptTokens: number;
        /** Tokens that are evaluated so far, `cached` included. */
        readonly processed: number;
        /** Tokens that were not computed again. */
        readonly cached: number;
        /** Since the evaluation began. */
        readonly ms: number;
      }
    | {
        readonly type: 'text';
        readonly text: string;
        /** Tokens that it was made of, on llama.cpp's wire. */
        readonly ids?: readonly number[];
        readonly logprobs?: readonly TokenLogprob[];
        /** As text completions tell them. */
        readonly textLogprobs?: TextLogprobs;
      }
    | { readonly type: 'refusal'; readonly text: string }
    | { readonly type: 'reasoning'; readonly text: string; readonly logprobs?: readonly TokenLogprob[] }
    /** Seals the reasoning since the last seal. */
    | { readonly type: 'reasoning_signature'; readonly signature: string }
    | { readonly type: 'sealed_reasoning'; readonly data: string; readonly id?: string }
    /** The n-th call, counted from 0 without holes over calls only. */
    | {
        readonly type: 'tool_call';
        readonly index: number;
        readonly id: string;
        readonly name: string;
        readonly signature?: string;
      }
    | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string }
    | { readonly type: 'usage'; readonly usage: Usage }
    | {
        readonly type: 'finish';
        readonly reason: FinishReason;
        /** The provider's own word, where it says more (`pause_turn`, `refusal`, `MALFORMED_FUNCTION_CALL`). */
        readonly detail?: string;
        readonly stopText?: string;
      }
    /** The provider reported a fault within its stream, or cut it off. */
    | {
        readonly type: 'failure';
        readonly error: WireError /** May be asked again. */;
        readonly again: boolean;
      }
  );
