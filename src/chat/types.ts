import type { GrammarSource } from '../grammar/types.ts';

/** A conversation as every wire hands it over: texts only, arguments as values. */
export type ChatTurn =
  | { readonly role: 'system' | 'user'; readonly content: string; readonly name?: string }
  | {
      readonly role: 'assistant';
      readonly content: string;
      readonly name?: string;
      /** What it thought before; templates show it or leave it out. */
      readonly reasoning?: string;
      readonly toolCalls?: readonly PastCall[];
    }
  | {
      readonly role: 'tool';
      readonly content: string;
      /** The call it answers; where it is absent, the calls are answered in order. */
      readonly callId?: string;
      readonly name?: string;
    };

export interface PastCall {
  readonly id: string;
  readonly name: string;
  /** An object; text where a client sent what is no JSON. */
  readonly arguments: unknown;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  /** JSON schema of an object; absent: no parameters. */
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** Arguments must fit the schema to the letter, or the request is refused. */
  readonly strict?: boolean;
}

export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** How much the model should think: a wish that templates know differently, or not at all. */
export type Thinking = boolean | 'low' | 'medium' | 'high';

export interface ChatInput {
  readonly messages: readonly ChatTurn[];
  readonly tools?: readonly ToolDefinition[];
  /** Default `auto`. */
  readonly toolChoice?: ToolChoice;
  /** Default true: several calls in one answer. */
  readonly parallelToolCalls?: boolean;
  /** What the answer's text must look like. */
  readonly output?: GrammarSource;
  /** Default: the template's own. */
  readonly thinking?: Thinking;
  /** Further variables of the template (`chat_template_kwargs`). */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** The last message is the assistant's, and the answer goes on with it. */
  readonly continueLast?: boolean;
}

/** A conversation ready for the engine. */
export interface PreparedChat {
  readonly prompt: readonly number[];
  /** For people; what `prompt` encodes. */
  readonly text: string;
  readonly grammar: GrammarSource | undefined;
  /** Control tokens that the parser needs to see. */
  readonly visible: ReadonlySet<number>;
  /** Texts that end the answer beside the caller's own. */
  readonly stop: readonly string[];
  /** One for each answer. */
  parser(): ChatParser;
}

/** Splits an answer's text into what its parts mean, as it comes. Never loses text: what is no call is content. */
export interface ChatParser {
  push(text: string): ChatDelta[];
  /** The answer is over. */
  end(): ChatDelta[];
}

export type ChatDelta =
  | { readonly type: 'content'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** A call begins; `index` counts the answer's calls. */
  | { readonly type: 'tool_call'; readonly index: number; readonly id: string; readonly name: string }
  /** A piece of the arguments, which are JSON in the end. */
  | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string };

/** What a model's chat template can do. */
export interface ChatTraits {
  /** The way of writing calls that the template teaches; undefined: we describe tools ourselves. */
  readonly toolStyle: string | undefined;
  /** Whether answers may hold reasoning. */
  readonly reasoning: boolean;
}

/** A conversation that cannot be rendered; the message ends in the template's own words. */
export type ChatErrorCode =
  | 'no_chat_template'
  | 'chat_template_error'
  | 'context_length_exceeded'
  | 'unknown_tool';
export class ChatError extends Error {
  readonly code: ChatErrorCode;
  constructor(code: ChatErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ChatError';
    this.code = code;
  }
}
