import fc from 'fast-check';
import type { ChatEnd, ChatEvent } from '../../src/planes/turn/chat.ts';

/** What an answer's parts come to, in order. */
export type Part =
  | { type: 'reasoning' | 'content'; pieces: string[] }
  | { type: 'call'; name: string; pieces: string[] };

export const chatEnd = (more: Partial<ChatEnd> = {}): ChatEvent => ({
  choice: 0,
  type: 'end',
  finishReason: 'stop',
  usage: { prompt_tokens: 12, completion_tokens: 7, cached_tokens: 4 },
  timings: { queued_ms: 0, prefill_ms: 1, decode_ms: 1 },
  reasoningTokens: 3,
  ...more,
});

/** The events of an answer of these parts. */
export function chatEvents(parts: readonly Part[], end: Partial<ChatEnd> = {}): ChatEvent[] {
  const events: ChatEvent[] = [];
  let calls = 0;
  for (const part of parts) {
    if (part.type !== 'call') {
      for (const text of part.pieces) events.push({ choice: 0, type: part.type, text });
      continue;
    }
    const index = calls++;
    events.push({ choice: 0, type: 'tool_call', index, id: `call_${index}x`, name: part.name });
    for (const text of part.pieces) events.push({ choice: 0, type: 'tool_arguments', index, text });
  }
  return [...events, chatEnd({ ...(calls > 0 ? { finishReason: 'tool_calls' } : {}), ...end })];
}

const pieces = fc.array(fc.string({ minLength: 1, maxLength: 8, unit: 'binary' }), {
  minLength: 1,
  maxLength: 4,
});
const call = fc.record({
  type: fc.constant('call' as const),
  name: fc.constantFrom('weather', 'a-b_c', 'x'),
  pieces: fc
    .dictionary(fc.string({ minLength: 1, maxLength: 4 }), fc.jsonValue({ maxDepth: 2 }), {
      noNullPrototype: true,
    })
    .map((value) => JSON.stringify(value).match(/[^]{1,7}/gu) ?? []),
});
const prose = fc.record({ type: fc.constantFrom('reasoning' as const, 'content' as const), pieces });

/** Any order of parts, of which no two neighbours are one. */
export const anyParts: fc.Arbitrary<Part[]> = fc
  .array(fc.oneof(prose, call), { maxLength: 6 })
  .map((parts) =>
    parts.filter((part, index) => part.type === 'call' || part.type !== parts[index - 1]?.type),
  );

export const textOf = ({ pieces: all }: Part): string => all.join('');
