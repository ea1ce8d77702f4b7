import { z } from 'zod';
import { count, route, text, time, tokenCounts } from './common.ts';
import { waitingOn } from './session.ts';
import { turnEvent } from './turn-event.ts';

export const runState = z.enum(['running', 'paused', 'suspended', 'completed', 'failed', 'cancelled']);
export type RunState = z.infer<typeof runState>;

const recordMembers = {
  id: text,
  workflow: text,
  digest: text.describe('Digest of the source that the run started with.'),
  state: runState,
  outcome: text.optional(),
  started_at: time,
  ended_at: time.optional(),
  retried_from: text.optional(),
  wrapper_cycle: count.optional(),
};
export const runRecord = z.object(recordMembers).meta({ id: 'RunRecord' });
export type RunRecord = z.infer<typeof runRecord>;

export const stepRecord = z.object({
  id: text,
  state: z.enum(['running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled', 'interrupted']),
  attempts: count,
  started_at: time,
  ended_at: time.optional(),
  output: z.unknown().optional(),
  error: text.optional(),
  cycle: count.optional(),
});
export type StepRecord = z.infer<typeof stepRecord>;

export const runDetail = z
  .object({
    ...recordMembers,
    waiting_on: waitingOn.optional(),
    suspend_kind: text.optional(),
    gate: z
      .looseObject({ step: text.optional() })
      .optional()
      .describe(
        'The gate that a suspended run waits at. An input gate includes the schema that resume must fit.',
      ),
    cancellable: z.boolean(),
    route: route.optional(),
    tokens: tokenCounts.optional(),
    step_records: z.array(stepRecord),
    result: z.unknown().optional(),
    inputs: z.record(z.string(), z.unknown()),
    last_event: text.optional(),
  })
  .meta({ id: 'RunDetail' });
export type RunDetail = z.infer<typeof runDetail>;

const eventSchema = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.object({ type: z.literal(type), seq: count, ts: time, ...shape });

export const runOutcome = z.enum(['completed', 'failed', 'cancelled', 'suspended']);

/** An event of a run's stream. `seq` counts over all segments of the run. */
export const runEvent = z
  .discriminatedUnion('type', [
    eventSchema('run_start', { run_id: text, workflow: text, digest: text, session_id: text.optional() }),
    eventSchema('step_start', { step: text, attempt: count }),
    eventSchema('step_waiting', { step: text, waiting_on: waitingOn, pending_id: text.optional() }),
    eventSchema('step_event', { step: text, event: turnEvent }),
    eventSchema('step_end', {
      step: text,
      outcome: z.enum(['completed', 'failed', 'skipped', 'cancelled']),
      output: z.unknown().optional(),
      error: text.optional(),
    }),
    eventSchema('run_end', {
      outcome: runOutcome,
      waiting_on: waitingOn.optional(),
      result: z.unknown().optional(),
      error: text.optional(),
    }),
  ])
  .meta({ id: 'RunEvent' });
export type RunEvent = z.infer<typeof runEvent>;
type WithoutSeq<Event> = Event extends unknown ? Omit<Event, 'seq' | 'ts'> : never;
export type NewRunEvent = WithoutSeq<RunEvent>;
