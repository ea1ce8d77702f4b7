import { z } from 'zod';
import { count, route, text, time, tokenCounts } from './common.ts';

export const waitingOn = z.enum(['input', 'time', 'value', 'schedule', 'armed', 'approval', 'event']);
export type WaitingOn = z.infer<typeof waitingOn>;

/** A row of the session feed. */
export const session = z
  .object({
    id: text,
    kind: z.enum(['task', 'run', 'external', 'host']),
    title: text,
    state: z.enum(['running', 'paused', 'suspended', 'waiting', 'completed', 'failed', 'cancelled']),
    waiting_on: waitingOn.optional(),
    started_at: time,
    ended_at: time.optional(),
    last_event: text.optional(),
    cwd: text.optional(),
    tokens: tokenCounts.optional().describe('Measured.'),
    route: route.optional(),
    cancellable: z.boolean(),
    suspend_kind: text.optional(),
    wrapper_cycle: count.optional(),
    harness: text.optional(),
    client: text.optional(),
    stale: z.boolean().optional(),
    tokens_claimed: tokenCounts.optional(),
  })
  .meta({ id: 'Session' });
export type Session = z.infer<typeof session>;
