import { z } from 'zod';
import { count, text, time } from './common.ts';

export const usage = z.object({ prompt_tokens: count, completion_tokens: count });

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type), seq: count, ts: time, ...shape });

export const abortReason = z.enum(['error', 'timeout', 'budget', 'shutdown']);
export type AbortReason = z.infer<typeof abortReason>;

/** A line of a task's stream. `seq` counts from 0 without holes. */
export const turnEvent = z
  .discriminatedUnion('type', [
    event('start', {
      task_id: text,
      agent: text,
      session_id: text.optional().describe('The store session whose credential the task acts under.'),
    }),
    event('turn', { n: count.describe('From 1.') }),
    event('delta', { text }),
    event('reasoning', { text }),
    event('tool_call', { call_id: text, tool: text, arguments: z.unknown() }),
    event('tool_result', { call_id: text, ok: z.boolean(), output: text, truncated: z.boolean() }),
    event('staged', { pending_id: text, tool: text, summary: text }),
    event('usage', usage.shape),
    event('answer', {
      text,
      usage: usage.optional().describe('Of all answers together; absent where the model did not say.'),
      turns: count,
    }),
    event('aborted', { reason: abortReason, message: text }),
  ])
  .meta({ id: 'TurnEvent' });
export type TurnEvent = z.infer<typeof turnEvent>;

type WithoutPlace<Event> = Event extends unknown ? Omit<Event, 'seq' | 'ts'> : never;
/** As the loop makes it; the log gives it its place and time. */
export type NewTurnEvent = WithoutPlace<TurnEvent>;
