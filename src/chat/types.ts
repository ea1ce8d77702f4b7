import type { GrammarSource } from '../grammar/types.ts';

/** One message of a conversation in the format that all APIs convert to: text content, arguments as values. */
export type ChatTurn =
  | { readonly role: 'system' | 'user'; readonly content: string; readonly name?: string }
  | {
      readonly role: 'assistant';
      readonly content: string;
      readonly name?: string;
      /** Past reasoning; the template decides whether to render it. */
      readonly reasoning?: string;
      readonly toolCalls?: readonly PastToolCall[];
    }
  | {
      readonly role: 'tool';
      readonly content: string;
      /** The call that this is the result of. Results without it belong to the calls in order. */
      readonly callId?: string;
      readonly name?: string;
    };

export interface PastToolCall {
  readonly id: string;
  readonly name: string;
  /** An object, or the text that a client sent if it is not JSON. */
  readonly arguments: unknown;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  /** JSON schema of an object; undefined for a tool without parameters. */
  readonly parameters?: Readonly<Record<string, unknown>>;
  /** Arguments must match the schema exactly. A schema that cannot be enforced is rejected. */
  readonly strict?: boolean;
}

export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string };

/** Requested reasoning effort. Templates support different levels, or none. */
export type Thinking = boolean | 'low' | 'medium' | 'high';

export interface ChatInput {
  readonly messages: readonly ChatTurn[];
  readonly tools?: readonly ToolDefinition[];
  /** Default `auto`. */
  readonly toolChoice?: ToolChoice;
  /** Whether one answer may have several calls. Default true. */
  readonly parallelToolCalls?: boolean;
  /** Constrains the text of the answer. */
  readonly output?: GrammarSource;
  /** Default: that of the template. */
  readonly thinking?: Thinking;
  /** Additional template variables (`chat_template_kwargs`). */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Whether the answer continues the last message, which must be an assistant message. */
  readonly continueLast?: boolean;
  /** Renders the messages alone, without the beginning of an answer. */
  readonly omitGenerationPrompt?: boolean;
}

/** A conversation ready for the engine. */
export interface PreparedChat {
  readonly prompt: readonly number[];
  /** The text that `prompt` encodes. */
  readonly text: string;
  readonly grammar: GrammarSource | undefined;
  /** Control tokens whose text the parser needs. */
  readonly visible: ReadonlySet<number>;
  /** Stop texts in addition to the caller's. */
  readonly stop: readonly string[];
  /** Creates a parser; every answer needs its own. */
  parser(): ChatParser;
}

/** Splits a streamed answer into content, reasoning and tool calls. Text that is not a valid call is content. */
export interface ChatParser {
  push(text: string): ChatDelta[];
  /** Ends the answer. */
  end(): ChatDelta[];
}

export type ChatDelta =
  | { readonly type: 'content'; readonly text: string }
  | { readonly type: 'reasoning'; readonly text: string }
  /** A call starts; `index` counts the calls of the answer. */
  | { readonly type: 'tool_call'; readonly index: number; readonly id: string; readonly name: string }
  /** A part of the arguments, which together are JSON. */
  | { readonly type: 'tool_arguments'; readonly index: number; readonly text: string };

/** The capabilities of a model's chat template. */
export interface ChatTraits {
  /** Name of the tool call format that the template uses; undefined when the template does not render tools. */
  readonly toolStyle: string | undefined;
  /** Whether answers may contain reasoning. */
  readonly reasoning: boolean;
}

/** Codes of conversations that cannot be rendered. The message ends with the template's message if it has one. */
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
