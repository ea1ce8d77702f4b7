import { z } from 'zod';
import { count, text, time } from './common.ts';
import { waitingOn } from './session.ts';

/** The events of the feed, and the state that each leaves its task, run or pending change in. */
export const agentEventStates = {
  'task.started': 'running',
  'task.waiting': 'running',
  'task.completed': 'completed',
  'task.failed': 'failed',
  'task.cancelled': 'cancelled',
  'run.started': 'running',
  'run.step_ended': 'running',
  'run.waiting': 'running',
  'run.suspended': 'suspended',
  'run.resumed': 'running',
  'run.completed': 'completed',
  'run.failed': 'failed',
  'run.cancelled': 'cancelled',
  'pending.staged': 'staged',
  'pending.edited': 'staged',
  'pending.applied': 'applied',
  'pending.discarded': 'discarded',
  'pending.expired': 'expired',
  'pending.failed': 'failed',
} as const;
export type AgentEventType = keyof typeof agentEventStates;
export const agentEventTypes = Object.keys(agentEventStates) as AgentEventType[];

/** An event of the agent plane, as the feed and webhooks send it. */
export const agentEvent = z
  .object({
    id: count.describe('Counts up over all events of the database; also those of types that are not sent.'),
    type: z.enum(agentEventTypes),
    timestamp: time,
    data: z.object({
      id: text.describe('The task, run or pending change.'),
      state: z.enum([...new Set(Object.values(agentEventStates))]),
      url: text.describe('Path of the task, run or pending change.'),
      agent: text.optional(),
      title: text.optional().describe('Beginning of the prompt of a task.'),
      part: count.optional().describe("The part of a task's conversation."),
      outcome: text.optional(),
      workflow: text.optional(),
      cycle: count.optional().describe('The cycle of a scheduled or armed run.'),
      waiting_on: waitingOn.optional(),
      pending_id: text.optional().describe('The change that a task or run waits for.'),
      kind: text.optional(),
      tool: text.optional(),
      summary: text.optional(),
      risk: text.optional(),
      task_id: text.optional(),
      run_id: text.optional(),
      step: text.optional(),
      by: text.optional().describe('Who decided on a pending change, or edited it.'),
    }),
  })
  .meta({ id: 'AgentEvent' });
export type AgentEvent = z.infer<typeof agentEvent>;

/** What a subscriber names: an event, or all events of tasks, runs or pending changes. */
export const eventSelectors: readonly string[] = ['task', 'run', 'pending', ...agentEventTypes];

/** @param selectors undefined: all events */
export const isSelected = (type: string, selectors: readonly string[] | undefined): boolean =>
  selectors === undefined || selectors.includes(type) || selectors.includes(type.split('.', 1)[0] ?? '');
