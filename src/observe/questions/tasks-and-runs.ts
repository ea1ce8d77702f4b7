import {
  sinceParameter,
  textParameter,
  defineQuestion,
  sinceCondition,
  definedConditions,
} from './question.ts';

export const failedRuns = defineQuestion('failed_runs', {
  description: 'Failed workflow runs and the reasons, newest first.',
  parameters: { since: sinceParameter('-7d'), workflow: textParameter('Only this workflow.') },
  query: (parameters) => ({
    surface: 'runs',
    select: ['id', 'workflow', 'started_at', 'ended_at', 'duration_ms', 'failure', 'retried_from', 'model'],
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'state', op: 'eq', value: 'failed' },
      { column: 'workflow', op: 'eq', value: parameters.workflow },
    ),
  }),
});

export const failingSteps = defineQuestion('failing_steps', {
  description: 'Workflow steps that fail or are interrupted most often, and the errors.',
  parameters: { since: sinceParameter('-7d'), workflow: textParameter('Only this workflow.') },
  query: (parameters) => ({
    surface: 'steps',
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'state', op: 'in', value: ['failed', 'interrupted'] },
      { column: 'workflow', op: 'eq', value: parameters.workflow },
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

export const failedTasks = defineQuestion('failed_tasks', {
  description: 'Failed tasks and the reasons, newest first.',
  parameters: { since: sinceParameter('-7d'), agent: textParameter('Only this agent.') },
  query: (parameters) => ({
    surface: 'tasks',
    select: ['id', 'agent', 'title', 'started_at', 'duration_ms', 'outcome', 'failure', 'turns', 'model'],
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'state', op: 'eq', value: 'failed' },
      { column: 'agent', op: 'eq', value: parameters.agent },
    ),
  }),
});

export const toolCalls = defineQuestion('tool_calls', {
  description: 'Tools that agents call: calls by outcome and the time they take, most calls first.',
  parameters: { since: sinceParameter('-7d'), agent: textParameter('Only this agent.') },
  query: (parameters) => ({
    surface: 'spans',
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'kind', op: 'eq', value: 'tool' },
      { column: 'agent', op: 'eq', value: parameters.agent },
    ),
    group_by: ['name', 'outcome', 'code'],
    aggregate: [
      { fn: 'count', as: 'calls' },
      { fn: 'p50', column: 'total_ms', as: 'p50_ms' },
      { fn: 'p95', column: 'total_ms', as: 'p95_ms' },
      { fn: 'max', column: 'started_at', as: 'last_at' },
    ],
    order_by: [{ column: 'calls', direction: 'desc' }],
  }),
});

export const gateWaits = defineQuestion('gate_waits', {
  description: 'Runs that wait at a gate, longest wait first.',
  parameters: {
    workflow: textParameter('Only this workflow.'),
    waiting_on: textParameter(
      'Only this kind of gate: input, time, value, schedule, armed, approval or event.',
    ),
  },
  query: (parameters) => ({
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
    where: definedConditions(
      { column: 'state', op: 'eq', value: 'suspended' },
      { column: 'workflow', op: 'eq', value: parameters.workflow },
      { column: 'waiting_on', op: 'eq', value: parameters.waiting_on },
    ),
    order_by: [{ column: 'waiting_since', direction: 'asc' }],
  }),
});

export const vanishedSessions = defineQuestion('vanished_sessions', {
  description: 'External sessions that were closed because their heartbeats stopped.',
  parameters: { since: sinceParameter('-7d'), harness: textParameter('Only this program.') },
  query: (parameters) => ({
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
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'kind', op: 'eq', value: 'external' },
      { column: 'close_reason', op: 'eq', value: 'heartbeat_lost' },
      { column: 'harness', op: 'eq', value: parameters.harness },
    ),
  }),
});
