import type { HostedTool, Usage } from './types.ts';
import type { WireError } from './error.ts';
import type { Timings } from './timings-schema.ts';

export type { Timings } from './timings-schema.ts';

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export interface TokenLogprob {
  /** Token id; set on llama.cpp's wire. */
  readonly id?: number;
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
  readonly top_logprobs: readonly Omit<TokenLogprob, 'top_logprobs'>[];
}

/** Log probabilities of a text completion; one entry per token in each list. */
export interface TextLogprobs {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly (number | null)[];
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[];
  /** Offset of each token in the choice's text, in code points. */
  readonly text_offset: readonly number[];
}

export function concatLogprobs(parts: readonly TextLogprobs[]): TextLogprobs {
  return {
    tokens: parts.flatMap(({ tokens }) => tokens),
    token_logprobs: parts.flatMap(({ token_logprobs }) => token_logprobs),
    top_logprobs: parts.flatMap(({ top_logprobs }) => top_logprobs),
    text_offset: parts.flatMap(({ text_offset }) => text_offset),
  };
}

/** A tool of an MCP server of the host, its call, or the question whether it may be called. */
export type HostedItem = { readonly id: string; readonly server_label: string } & (
  | { readonly type: 'mcp_list_tools'; readonly tools: readonly object[]; readonly error: string | null }
  | ({
      readonly type: 'mcp_call';
      readonly status: 'in_progress' | 'completed' | 'failed';
      readonly output: string | null;
      readonly error: HostedCallError | null;
      readonly approval_request_id: string | null;
    } & HostedCallMembers)
  | ({ readonly type: 'mcp_approval_request' } & HostedCallMembers)
);
interface HostedCallError {
  readonly type: 'mcp_tool_execution_error';
  readonly content: readonly { readonly type: 'text'; readonly text: string }[];
}
interface HostedCallMembers {
  /** The server's own name of the tool. */
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

/** Members common to all events. */
interface EventBase {
  /** Index of the choice, from 0, where a request asked for several answers. Default 0. */
  readonly choice?: number;
  /** Timings of the answer so far, where the request asked for progress. */
  readonly timings?: Timings;
}

/**
 * An answer as provider-neutral events. A buffered answer is the list of its events. Order: at most one `start`, then
 * content events, one `finish` per choice, and `usage` any number of times anywhere; the last `usage` applies to all
 * choices and must not be summed. `failure` ends the answer, also after a `finish`.
 */
export type AnswerEvent = EventBase &
  (
    | { readonly type: 'start' /** The provider's id for the answer. */; readonly id?: string }
    /** Progress of the prompt evaluation. */
    | {
        readonly type: 'progress';
        readonly promptTokens: number;
        /** Prompt tokens evaluated so far, including `cached`. */
        readonly processed: number;
        /** Prompt tokens read from the cache. */
        readonly cached: number;
        /** Milliseconds since the evaluation began. */
        readonly ms: number;
      }
    | {
        readonly type: 'text';
        readonly text: string;
        /** Ids of the tokens of the text; set on llama.cpp's wire. */
        readonly ids?: readonly number[];
        readonly logprobs?: readonly TokenLogprob[];
        /** In the format of text completions. */
        readonly textLogprobs?: TextLogprobs;
      }
    | { readonly type: 'refusal'; readonly text: string }
    | { readonly type: 'reasoning'; readonly text: string; readonly logprobs?: readonly TokenLogprob[] }
    /** Signature of the reasoning since the previous signature. */
    | { readonly type: 'reasoning_signature'; readonly signature: string }
    | { readonly type: 'encrypted_reasoning'; readonly data: string; readonly id?: string }
    /** `index` counts tool calls only, from 0 without gaps. */
    | {
        readonly type: 'tool_call';
        readonly index: number;
        readonly id: string;
        readonly name: string;
        readonly signature?: string;
      }
    | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string }
    /** What the host did with the tools of its MCP servers; written on the Responses wire alone. */
    | { readonly type: 'hosted_item'; readonly item: HostedItem }
    | { readonly type: 'usage'; readonly usage: Usage }
    /** The provider ran a tool that it bills by the call. Events with the same key are of one billed call. */
    | { readonly type: 'hosted_call'; readonly tool: HostedTool; readonly key: string }
    | {
        readonly type: 'finish';
        readonly reason: FinishReason;
        /**
         * The provider's own finish reason, where it is more specific (`pause_turn`, `refusal`,
         * `MALFORMED_FUNCTION_CALL`).
         */
        readonly detail?: string;
        readonly stopText?: string;
      }
    /** The provider reported an error within its stream, or the stream was truncated. */
    | {
        readonly type: 'failure';
        readonly error: WireError /** Whether a retry may succeed. */;
        readonly isRetryable: boolean;
      }
  );
