import { z } from 'zod';
import { count, text, time } from './common.ts';

export const usage = z.object({ prompt_tokens: count, completion_tokens: count });

const eventSchema = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type), seq: count, ts: time, ...shape });

export const abortReason = z.enum(['error', 'timeout', 'budget', 'shutdown', 'cancelled']);
export type AbortReason = z.infer<typeof abortReason>;

/** An event of a task's stream. `seq` counts from 0 without gaps. */
export const turnEvent = z
  .discriminatedUnion('type', [
    eventSchema('start', {
      task_id: text,
      agent: text,
      session_id: text.optional().describe('The store session that the task acts under.'),
    }),
    eventSchema('message', {
      part: count.describe('The part of the conversation that begins, from 2.'),
      prompt: text,
      session_id: text.optional().describe('The store session that this part acts under.'),
    }).describe('A person goes on with the task; after the end of its last part.'),
    eventSchema('resumed', {}).describe('The host was started again and goes on with the task.'),
    eventSchema('compacted', { messages: count, summary: text }).describe(
      'The context was full: so many older messages were replaced by a summary. The database keeps them.',
    ),
    eventSchema('turn', { n: count.describe('From 1.') }),
    eventSchema('delta', { text }),
    eventSchema('reasoning', { text }),
    eventSchema('tool_call', { call_id: text, tool: text, arguments: z.unknown() }),
    eventSchema('tool_output', { call_id: text, text }).describe(
      'What a command prints while it runs, up to 64 Ki characters of a call. `tool_result` has all that the model gets.',
    ),
    eventSchema('tool_result', { call_id: text, ok: z.boolean(), output: text, truncated: z.boolean() }),
    eventSchema('staged', { pending_id: text, tool: text, summary: text }),
    eventSchema('waiting', { pending_id: text }).describe(
      'The task waits for the decision on this change; the next `tool_result` tells it.',
    ),
    eventSchema('retrying', { message: text, after_ms: count }).describe(
      'The model failed, and is asked again after so many milliseconds: what came of its answer in this turn is void.',
    ),
    eventSchema('usage', usage.shape),
    eventSchema('answer', {
      text,
      usage: usage.optional().describe('Total of all answers; absent when the model did not report usage.'),
      turns: count,
    }),
    eventSchema('aborted', { reason: abortReason, message: text }),
  ])
  .meta({ id: 'TurnEvent' });
export type TurnEvent = z.infer<typeof turnEvent>;

type WithoutSeq<Event> = Event extends unknown ? Omit<Event, 'seq' | 'ts'> : never;
/** An event as the turn loop emits it; the log adds `seq` and `ts`. */
export type NewTurnEvent = WithoutSeq<TurnEvent>;
