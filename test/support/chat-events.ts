import fc from 'fast-check';
import type { AnswerEvent, FinishReason, Timings } from '../../src/wires/core/answer.ts';

/** What an answer's parts come to, in order. */
export type Part =
  | { type: 'reasoning' | 'content'; pieces: string[] }
  | { type: 'call'; name: string; pieces: string[] };

/** How an answer ended. */
export interface ChatEnd {
  readonly finishReason?: FinishReason;
  readonly stopText?: string;
}

export const timings: Timings = {
  cache_n: 4,
  prompt_n: 8,
  prompt_ms: 1,
  prompt_per_token_ms: 0.125,
  prompt_per_second: 8000,
  predicted_n: 7,
  predicted_ms: 1,
  predicted_per_token_ms: 0.14,
  predicted_per_second: 7000,
};

/** Twelve tokens of a prompt, four of them from the cache, and seven of an answer, three of them thoughts. */
export const chatEnd = ({ finishReason: reason = 'stop', stopText }: ChatEnd = {}): AnswerEvent[] => [
  {
    type: 'usage',
    usage: { fresh: 8, cacheWrite: 0, cacheWrite1h: 0, cacheRead: 4, output: 7, reasoning: 3 },
    timings,
  },
  { choice: 0, type: 'finish', reason, ...(stopText === undefined ? {} : { stopText }), timings },
];

/** The events of an answer of these parts. */
export function chatEvents(parts: readonly Part[], end: ChatEnd = {}): AnswerEvent[] {
  const events: AnswerEvent[] = [];
  let calls = 0;
  for (const part of parts) {
    if (part.type !== 'call') {
      const type = part.type === 'content' ? 'text' : part.type;
      for (const text of part.pieces) events.push({ choice: 0, type, text });
      continue;
    }
    const index = calls++;
    events.push({ choice: 0, type: 'tool_call', index, id: `call_${index}x`, name: part.name });
    for (const text of part.pieces) events.push({ choice: 0, type: 'tool_arguments', index, text });
  }
  return [...events, ...chatEnd({ ...(calls > 0 ? { finishReason: 'tool_calls' } : {}), ...end })];
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
