import type { Usage } from './types.ts';
import type { WireError } from './error.ts';

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly Omit<TokenLogprob, 'top_logprobs'>[];
}

/**
 * An answer as it comes, in nobody's words. A buffered answer is the list of its events. In order: at most one `start`,
 * then contents, `finish` once, `usage` any number of times anywhere, of which the last holds for all (never to be
 * added up); `failure` ends it, also after a `finish`.
 */
export type AnswerEvent =
  | { readonly type: 'start' /** The provider's id of the answer. */; readonly id?: string }
  | { readonly type: 'text'; readonly text: string; readonly logprobs?: readonly TokenLogprob[] }
  | { readonly type: 'refusal'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
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
    };
