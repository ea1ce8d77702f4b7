import type { Effort } from './types.ts';

/**
 * A request for an answer in nobody's words: what every wire of callers is read into and every wire of providers is
 * written from. What only one wire knows is not here: same-wire requests pass through as they came (`wire.ts`).
 */
export interface Conversation {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string };
  readonly parallelToolCalls?: boolean;
  /** The most tokens of the answer, reasoning included. */
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly stop: readonly string[];
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  /** The number of likeliest tokens to show at each place; undefined: no log probabilities. */
  readonly topLogprobs?: number;
  readonly reasoning?: Reasoning;
  readonly format: AnswerFormat;
  /** Who asks, as the caller names it. */
  readonly user?: string;
}

export interface Message {
  /** `system` may stand anywhere; `tool` holds results only. */
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly parts: readonly Part[];
}

export type Part =
  | { readonly type: 'text'; readonly text: string; readonly cache?: CacheMark }
  | ImagePart
  | FilePart
  /** What the model thought; `signature` is its maker's seal, marked (`seals.ts`), without which it is not taken back. */
  | { readonly type: 'reasoning'; readonly text: string; readonly signature?: string }
  /** Thoughts that only their maker can read, marked (`seals.ts`). */
  | { readonly type: 'sealed_reasoning'; readonly data: string; readonly id?: string }
  | { readonly type: 'refusal'; readonly text: string }
  | ToolCallPart
  | {
      readonly type: 'tool_result';
      readonly id: string;
      /** The name of the tool that was called, found through the call's id. */
      readonly name: string;
      readonly parts: readonly (ImagePart | { readonly type: 'text'; readonly text: string })[];
      readonly failed: boolean;
      readonly cache?: CacheMark;
    };

export interface ImagePart {
  readonly type: 'image';
  readonly source:
    | { readonly url: string }
    | { readonly mediaType: string /** Base64. */; readonly data: string };
  readonly detail?: 'auto' | 'low' | 'high';
  readonly cache?: CacheMark;
}

export interface FilePart {
  readonly type: 'file';
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
  readonly name?: string;
  readonly cache?: CacheMark;
}

export interface ToolCallPart {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model wrote it. */
  readonly arguments: string;
  /** The provider's seal on the thought behind the call (Google's `thoughtSignature`). */
  readonly signature?: string;
  readonly cache?: CacheMark;
}

/** A breakpoint: what stands before and here is kept for later requests. */
export interface CacheMark {
  readonly ttl?: '5m' | '1h';
}

export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict?: boolean;
  readonly cache?: CacheMark;
}

export interface Reasoning {
  readonly effort?: Effort;
  /** A budget, within `maxTokens`. */
  readonly maxTokens?: number;
}

export type AnswerFormat =
  | { readonly type: 'text' }
  | { readonly type: 'json' }
  | {
      readonly type: 'schema';
      readonly name: string;
      readonly schema: Readonly<Record<string, unknown>>;
      readonly description?: string;
      readonly strict?: boolean;
    };
