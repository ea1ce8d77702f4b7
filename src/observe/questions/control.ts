import { z } from 'zod';
import {
  sinceParameter,
  textParameter,
  defineQuestion,
  sinceCondition,
  definedConditions,
} from './question.ts';

export const pendingByAge = defineQuestion('pending_by_age', {
  description: 'Changes that wait for a decision, oldest first.',
  parameters: {
    agent: textParameter('Only this agent.'),
    risk: textParameter('Only this risk: low, medium or high.'),
  },
  query: (parameters) => ({
    surface: 'pending',
    select: [
      'id',
      'age_ms',
      'created_at',
      'expires_at',
      'risk',
      'kind',
      'tool',
      'agent',
      'summary',
      'path',
      'task_id',
      'run_id',
    ],
    where: definedConditions(
      { column: 'state', op: 'eq', value: 'staged' },
      { column: 'agent', op: 'eq', value: parameters.agent },
      { column: 'risk', op: 'eq', value: parameters.risk },
    ),
    order_by: [{ column: 'created_at', direction: 'asc' }],
  }),
});

export const decisionTimes = defineQuestion('decision_times', {
  description: 'How long changes waited for a decision, and the decision.',
  parameters: { since: sinceParameter('-30d') },
  query: (parameters) => ({
    surface: 'pending',
    where: [
      sinceCondition('created_at', parameters.since),
      { column: 'state', op: 'in', value: ['applied', 'discarded', 'expired', 'failed'] },
    ],
    group_by: ['kind', 'risk', 'state'],
    aggregate: [
      { fn: 'count', as: 'changes' },
      { fn: 'p50', column: 'decision_ms', as: 'p50_ms' },
      { fn: 'p95', column: 'decision_ms', as: 'p95_ms' },
    ],
    order_by: [{ column: 'changes', direction: 'desc' }],
  }),
});

export const whoActed = defineQuestion('who_acted', {
  description: 'Who did what, how often, and whether it was applied or refused.',
  parameters: {
    since: sinceParameter('-7d'),
    by: textParameter('Only this actor: operator, session:ID, peer:NAME, local, agent:NAME or host.'),
    verb: textParameter('Only this verb: approve, discard, revoke, run.cancel and so on.'),
  },
  query: (parameters) => ({
    surface: 'acts',
    where: definedConditions(
      sinceCondition('at', parameters.since),
      { column: 'by', op: 'eq', value: parameters.by },
      { column: 'verb', op: 'eq', value: parameters.verb },
    ),
    group_by: ['by', 'verb', 'outcome'],
    aggregate: [
      { fn: 'count', as: 'acts' },
      { fn: 'max', column: 'at', as: 'last_at' },
    ],
    order_by: [{ column: 'last_at', direction: 'desc' }],
  }),
});

export const refusedActs = defineQuestion('refused_acts', {
  description: 'Refused acts and the reasons, newest first.',
  parameters: { since: sinceParameter('-7d') },
  query: (parameters) => ({
    surface: 'acts',
    select: ['at', 'by', 'verb', 'target', 'reason', 'endpoint_id'],
    where: [sinceCondition('at', parameters.since), { column: 'outcome', op: 'eq', value: 'refused' }],
  }),
});

export const transcriptOf = defineQuestion('said_about', {
  description:
    'The recorded transcript of a task, run, session or request, in order, as far as the caller may read it.',
  parameters: {
    subject: z
      .string('expected the id of a task, run, session or completion')
      .min(1, 'must not be empty')
      .max(200, 'at most 200 characters')
      .describe('Id of the task, run, session or completion.'),
  },
  query: (parameters) => ({
    surface: 'transcript',
    select: ['at', 'rack', 'kind', 'role', 'model', 'content', 'redacted', 'source', 'event_id'],
    where: [{ column: 'subject', op: 'eq', value: parameters.subject }],
    order_by: [
      { column: 'at', direction: 'asc' },
      { column: 'seq', direction: 'asc' },
    ],
  }),
});
