import type { ChatTurn } from '../../chat/index.ts';
import type { ContentPart, Message } from './chat-schema.ts';

/** OpenAI's messages as turns: a system role instead of developer, text instead of parts, arguments as values. */
export const toChatTurns = (messages: readonly Message[]): ChatTurn[] => messages.map(toTurn);

function toTurn(message: Message): ChatTurn {
  const content = plainContent(message.content);
  if (message.role === 'tool') {
    return { role: 'tool', content, ...(message.tool_call_id ? { callId: message.tool_call_id } : {}) };
  }
  const name = message.name ? { name: message.name } : {};
  if (message.role !== 'assistant') {
    return { role: message.role === 'developer' ? 'system' : message.role, content, ...name };
  }
  const toolCalls = (message.tool_calls ?? []).map((call) => ({
    id: call.id,
    name: call.function.name,
    arguments: parsedArguments(call.function.arguments),
  }));
  return { role: 'assistant', content, ...name, ...(toolCalls.length > 0 ? { toolCalls } : {}) };
}

function plainContent(content: string | readonly ContentPart[] | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => (part.type === 'text' ? part.text : part.refusal)).join('\n');
}

/** Templates want an object; text that is no JSON, or JSON too deep to walk, stays text. */
function parsedArguments(text: string): unknown {
  if ((text.match(/[[{]/g) ?? []).length > 1000) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
