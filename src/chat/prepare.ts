import type { ChatMessage, Engine } from '../engine/index.ts';
import { chatPrompt, refuseMany } from './prompt.ts';
import type { ChatInput, ChatParser, ChatTraits, ChatTurn, PreparedChat } from './types.ts';

type Model = Pick<Engine, 'tokenizer' | 'chatTemplate' | 'model'>;

/** Renders and encodes a conversation for a model. */
export async function prepareChat(model: Model, input: ChatInput): Promise<PreparedChat> {
  const limit = model.model.contextLength;
  const calls = input.messages.reduce((sum, message) => sum + callsOf(message).length, 0);
  refuseMany(input.messages.length, 'messages', limit);
  refuseMany(calls, 'tool calls', limit);
  const { text, ids } = await chatPrompt(model, { messages: input.messages.map(toTemplateMessage) });
  return { prompt: ids, text, grammar: input.output, visible: new Set(), stop: [], parser: plainParser };
}

export function chatTraits(_model: Model): ChatTraits {
  return { toolStyle: undefined, reasoning: false };
}

const plainParser = (): ChatParser => ({
  push: (text) => (text === '' ? [] : [{ type: 'content', text }]),
  end: () => [],
});

function toTemplateMessage(message: ChatTurn): ChatMessage {
  const { role, content } = message;
  if (message.role === 'tool') {
    return { role, content, ...(message.callId ? { tool_call_id: message.callId } : {}) };
  }
  const name = message.name ? { name: message.name } : {};
  const calls = callsOf(message);
  if (calls.length === 0) return { role, content, ...name };
  const tool_calls = calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
  return { role, content, ...name, tool_calls };
}

const callsOf = (message: ChatTurn) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []);
