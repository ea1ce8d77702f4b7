import type { AgentSampling } from './shapes/agent-spec.ts';
import type { Route } from './shapes/common.ts';
import type { ToolImage } from './tool.ts';

/** Request of one turn to a chat model. */
export interface ChatModelRequest {
  readonly messages: readonly ChatModelMessage[];
  readonly tools: readonly ChatModelTool[];
  /** Default `auto`. */
  readonly toolChoice?: 'auto' | 'required' | { readonly name: string };
  /** The text of an answer without tool calls must be a JSON object, or fit the JSON schema. */
  readonly responseFormat?:
    | { readonly type: 'json' }
    | { readonly type: 'json_schema'; readonly schema: object };
  readonly sampling: AgentSampling;
  /** Maximum completion tokens of this answer. */
  readonly maxTokens: number;
  /** W3C trace context of the turn. */
  readonly traceparent?: string;
}

export type ChatModelMessage =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | {
      readonly role: 'assistant';
      readonly content: string;
      readonly calls: readonly ChatModelToolCall[];
      readonly providerData?: ProviderData;
    }
  | {
      readonly role: 'tool';
      readonly callId: string;
      readonly name: string;
      readonly content: string;
      readonly image?: ToolImage;
    };

/** What a model that gets no images is told of one. */
export const describeUnseenImage = (
  { width, height, sizeBytes }: ToolImage,
  reason = 'this model takes no images',
): string => `An image of ${width} x ${height} pixels, ${sizeBytes} bytes; ${reason}.`;

/**
 * What a model wants back on later turns with an answer of its own: reasoning, signatures, further members of tool calls.
 * JSON; only the model that returned it reads it.
 */
export type ProviderData = Readonly<Record<string, unknown>>;

export interface ChatModelTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ChatModelToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text; a model without constrained output may produce any text. */
  readonly arguments: string;
}

export type ChatModelEvent =
  | { readonly type: 'delta' | 'reasoning'; readonly text: string }
  /** One complete tool call. */
  | { readonly type: 'call'; readonly call: ChatModelToolCall }
  | {
      readonly type: 'end';
      readonly finish: 'stop' | 'tool_calls' | 'length' | 'content_filter';
      /** Absent when the model reports none. */
      readonly usage?: { readonly promptTokens: number; readonly completionTokens: number };
      /** Limit of completion tokens that the model set itself, below that of the request. */
      readonly maxTokens?: number;
      readonly providerData?: ProviderData;
    };

/** A chat model. An error that it throws ends the turn; an `AgentError` carries the reason. */
export interface ChatModel {
  readonly route: Route;
  /** Streams one answer. Leaving the loop or aborting the signal stops the model. */
  streamAnswer(request: ChatModelRequest, signal: AbortSignal): AsyncIterable<ChatModelEvent>;
}

/** Looks up the chat models of agents. */
export interface ChatModels {
  /**
   * @param model `resident`, or the id of a model of the gateway
   * @throws AgentError `unavailable` when there is no such model
   */
  find(model: string): ChatModel;
  /** The `planner` member of the identity card. */
  readonly disclosure: { readonly kind: string; readonly model: string | null; readonly disclosure: string };
}
