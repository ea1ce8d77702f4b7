import type { ToolCall, Turn } from './answer.ts';

export type Message =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string; readonly tool_calls?: readonly object[] }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string };

/**
 * Messages of the request. Answers that failed before their first token are left out, and so are tool calls without a
 * result.
 */
export const messagesOf = (system: string, turns: readonly Turn[]): Message[] => [
  ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
  ...turns.flatMap((turn, index): Message[] => {
    if (turn.role === 'user') {
      const results = turn.toolResults?.map(({ id, content }) => ({
        role: 'tool' as const,
        tool_call_id: id,
        content,
      }));
      return results ?? [{ role: 'user', content: turn.text }];
    }
    const { text, toolCalls } = turn;
    const next = turns[index + 1];
    if (next?.role === 'user' && next.toolResults)
      return [{ role: 'assistant', content: text, tool_calls: toolCalls.map(callOf) }];
    return text === '' ? [] : [{ role: 'assistant', content: text }];
  }),
];

const callOf = ({ id, name, arguments: text }: ToolCall) => ({
  id,
  type: 'function',
  function: { name, arguments: text },
});
