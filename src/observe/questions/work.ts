import { from, named, question, since, where } from './question.ts';

export const failedRuns = question('failed_runs', {
  description: 'Failed workflow runs and the reasons, newest first.',
  parameters: { since: from('-7d'), workflow: named('Only this workflow.') },
  query: (asked) => ({
    surface: 'runs',
    select: ['id', 'workflow', 'started_at', 'ended_at', 'duration_ms', 'failure', 'retried_from', 'model'],
    where: where(
      since('started_at', asked.since),
      { column: 'state', op: 'eq', value: 'failed' },
      { column: 'workflow', op: 'eq', value: asked.workflow },
    ),
  }),
});

export const failingSteps = question('failing_steps', {
  description: 'Workflow steps that fail or are interrupted most often, and the errors.',
  parameters: { since: from('-7d'), workflow: named('Only this workflow.') },
  query: (asked) => ({
    surface: 'steps',
    where: where(
      since('started_at', asked.since),
      { column: 'state', op: 'in', value: ['failed', 'interrupted'] },
      { column: 'workflow', op: 'eq', value: asked.workflow },
    ),
    group_by: ['workflow', 'step', 'error'],
    aggregate: [
      { fn: 'count', as: 'times' },
      { fn: 'sum', column: 'attempts', as: 'attempts' },
      { fn: 'max', column: 'started_at', as: 'last_at' },
    ],
    order_by: [{ column: 'times', direction: 'desc' }],
  }),
});

export const failedTasks = question('failed_tasks', {
  description: 'Failed tasks and the reasons, newest first.',
  parameters: { since: from('-7d'), agent: named('Only this agent.') },
  query: (asked) => ({
    surface: 'tasks',
    select: ['id', 'agent', 'title', 'started_at', 'duration_ms', 'outcome', 'failure', 'turns', 'model'],
    where: where(
      since('started_at', asked.since),
      { column: 'state', op: 'eq', value: 'failed' },
      { column: 'agent', op: 'eq', value: asked.agent },
    ),
  }),
});

export const gateWaits = question('gate_waits', {
  description: 'Runs that wait at a gate, longest wait first.',
  parameters: {
    workflow: named('Only this workflow.'),
    waiting_on: named('Only this kind of gate: input, time, value, schedule, armed, approval or event.'),
  },
  query: (asked) => ({
    surface: 'runs',
    select: [
      'id',
      'workflow',
      'waiting_on',
      'waiting_step',
      'waiting_since',
      'waiting_ms',
      'waiting_until',
      'cycle',
      'started_at',
    ],
    where: where(
      { column: 'state', op: 'eq', value: 'suspended' },
      { column: 'workflow', op: 'eq', value: asked.workflow },
      { column: 'waiting_on', op: 'eq', value: asked.waiting_on },
    ),
    order_by: [{ column: 'waiting_since', direction: 'asc' }],
  }),
});

export const vanishedSessions = question('vanished_sessions', {
  description: 'External sessions that were closed because their heartbeats stopped.',
  parameters: { since: from('-7d'), harness: named('Only this program.') },
  query: (asked) => ({
    surface: 'sessions',
    select: [
      'id',
      'harness',
      'client',
      'title_claimed',
      'cwd',
      'started_at',
      'heard_at',
      'ended_at',
      'last_event_claimed',
    ],
    where: where(
      since('started_at', asked.since),
      { column: 'kind', op: 'eq', value: 'external' },
      { column: 'close_reason', op: 'eq', value: 'heartbeat_lost' },
      { column: 'harness', op: 'eq', value: asked.harness },
    ),
  }),
});
