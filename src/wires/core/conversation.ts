import type { Effort } from './types.ts';

/**
 * A provider-neutral completion request. Every client wire is read into it and every provider wire is written from it.
 * Members that only one wire knows are absent: where client and provider speak the same wire, requests pass through
 * unchanged (`wire.ts`).
 */
export interface Conversation {
  readonly messages: readonly Message[];
  readonly tools: readonly Tool[];
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string };
  readonly parallelToolCalls?: boolean;
  /** Maximum number of tokens of the answer, reasoning included. */
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly seed?: number;
  readonly stop: readonly string[];
  readonly presencePenalty?: number;
  readonly frequencyPenalty?: number;
  /** Number of most likely tokens to report at each position; undefined: no log probabilities. */
  readonly topLogprobs?: number;
  readonly reasoning?: Reasoning;
  readonly format: AnswerFormat;
  /** The model may search the web, by a tool of the provider. */
  readonly webSearch?: boolean;
  /** The caller's identifier of its user. */
  readonly user?: string;
}

export interface Message {
  /** `system` may occur anywhere; `tool` contains only results. */
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly parts: readonly Part[];
}

export type Part =
  | { readonly type: 'text'; readonly text: string; readonly cache?: CacheBreakpoint }
  | ImagePart
  | FilePart
  /**
   * Reasoning text. `signature` is the provider's signature, tagged with its issuer (`reasoning-signatures.ts`);
   * without it the provider does not accept the reasoning.
   */
  | { readonly type: 'reasoning'; readonly text: string; readonly signature?: string }
  /** Encrypted reasoning that only its provider can read, tagged with its issuer (`reasoning-signatures.ts`). */
  | { readonly type: 'encrypted_reasoning'; readonly data: string; readonly id?: string }
  | { readonly type: 'refusal'; readonly text: string }
  | ToolCallPart
  | {
      readonly type: 'tool_result';
      readonly id: string;
      /** The name of the called tool, looked up by the id of the call. */
      readonly name: string;
      readonly parts: readonly (ImagePart | { readonly type: 'text'; readonly text: string })[];
      readonly failed: boolean;
      readonly cache?: CacheBreakpoint;
    };

export interface ImagePart {
  readonly type: 'image';
  readonly source:
    | { readonly url: string }
    | { readonly mediaType: string /** Base64. */; readonly data: string };
  readonly detail?: 'auto' | 'low' | 'high';
  readonly cache?: CacheBreakpoint;
}

export interface FilePart {
  readonly type: 'file';
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
  readonly name?: string;
  readonly cache?: CacheBreakpoint;
}

export interface ToolCallPart {
  readonly type: 'tool_call';
  readonly id: string;
  readonly name: string;
  /** JSON text as written by the model. */
  readonly arguments: string;
  /** The provider's signature of the reasoning behind the call (Google's `thoughtSignature`). */
  readonly signature?: string;
  readonly cache?: CacheBreakpoint;
}

/** A cache breakpoint: the prompt up to and including this part is cached for later requests. */
export interface CacheBreakpoint {
  readonly ttl?: '5m' | '1h';
}

export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict?: boolean;
  readonly cache?: CacheBreakpoint;
}

export interface Reasoning {
  readonly effort?: Effort;
  /** Token budget; included in `maxTokens`. */
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
