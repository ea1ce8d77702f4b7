import { openaiChat } from '../../wires/chat/upstream.ts';
import type { Conversation, Message } from '../../wires/core/conversation.ts';
import type { UpstreamModel } from '../../wires/core/types.ts';
import type { UpstreamBody } from '../../wires/core/wire.ts';
import type { ChatModelMessage, ChatModelRequest } from '../chat-model.ts';

/** Model description for a model of which only the name is known. */
export const describeModel = (name: string, url: string): UpstreamModel => ({
  id: name,
  upstream: name,
  provider: { id: 'gateway', wire: 'openai-chat', baseUrls: [url] },
  family: 'unknown',
  caps: new Set(),
  contextWindow: Number.POSITIVE_INFINITY,
  maxOutputTokens: Number.POSITIVE_INFINITY,
  embeddingDimensions: undefined,
  efforts: undefined,
});

/** The model as a reasoning model of OpenAI's, which refuses `max_tokens` and takes `max_completion_tokens`. */
export const asReasoningModel = (model: UpstreamModel): UpstreamModel => ({
  ...model,
  family: 'openai',
  caps: new Set(['reasoning']),
});

export const buildRequest = (model: UpstreamModel, request: ChatModelRequest): UpstreamBody =>
  openaiChat.request(toConversation(request), {
    model,
    stream: true,
    maxTokens: request.maxTokens,
    // Sampling members already have the names of the wire, including those that only some servers accept.
    extraMembers: request.sampling,
  });

function toConversation({ messages, tools, ...request }: ChatModelRequest): Conversation {
  const { toolChoice = 'auto', responseFormat } = request;
  return {
    messages: messages.map(toMessage),
    tools: tools.map(({ name, description, inputSchema }) => ({
      name,
      description,
      parameters: inputSchema,
    })),
    toolChoice,
    stop: [],
    format:
      responseFormat?.type === 'json_schema'
        ? { type: 'schema', name: 'answer', schema: { ...responseFormat.schema } }
        : { type: responseFormat?.type ?? 'text' },
  };
}

function toMessage(message: ChatModelMessage): Message {
  const text = { type: 'text' as const, text: message.content };
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, parts: [text] };
    case 'assistant': {
      const calls = message.calls.map(({ id, name, arguments: args }) => ({
        type: 'tool_call' as const,
        id,
        name,
        arguments: args === '' ? '{}' : args,
      }));
      const hasCallsOnly = message.content === '' && calls.length > 0;
      return { role: 'assistant', parts: hasCallsOnly ? calls : [text, ...calls] };
    }
    case 'tool': {
      const { callId: id, name } = message;
      return { role: 'tool', parts: [{ type: 'tool_result', id, name, parts: [text], failed: false }] };
    }
  }
}
