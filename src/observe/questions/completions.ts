import {
  bucketParameter,
  sinceParameter,
  textParameter,
  defineQuestion,
  sinceCondition,
  definedConditions,
} from './question.ts';

export const slowestTurns = defineQuestion('slowest_turns', {
  description: 'The slowest completions, and where their time went.',
  parameters: {
    since: sinceParameter('-24h'),
    wire: textParameter('Only this wire: chat, messages, ollama..., or agent for turns of agents.'),
    agent: textParameter('Only this agent.'),
    model: textParameter('Only this model.'),
  },
  query: (parameters) => ({
    surface: 'completions',
    select: [
      'started_at',
      'wire',
      'agent',
      'subject',
      'model',
      'outcome',
      'total_ms',
      'queued_ms',
      'prefill_ms',
      'decode_ms',
      'first_token_ms',
      'prompt_tokens',
      'completion_tokens',
      'id',
    ],
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'total_ms', op: 'is_null', value: false },
      { column: 'wire', op: 'eq', value: parameters.wire },
      { column: 'agent', op: 'eq', value: parameters.agent },
      { column: 'model', op: 'eq', value: parameters.model },
    ),
    order_by: [{ column: 'total_ms', direction: 'desc' }],
    limit: 20,
  }),
});

export const tokensByDayAndAgent = defineQuestion('tokens_by_day_and_agent', {
  description:
    'Prompt and completion tokens by day, agent and model. Rows without an agent are requests of clients.',
  parameters: { since: sinceParameter('-30d'), agent: textParameter('Only this agent.') },
  query: (parameters) => ({
    surface: 'completions',
    where: definedConditions(sinceCondition('started_at', parameters.since), {
      column: 'agent',
      op: 'eq',
      value: parameters.agent,
    }),
    group_by: [{ column: 'started_at', bucket: 'day' }, 'agent', 'model'],
    aggregate: [
      { fn: 'count', as: 'answers' },
      { fn: 'sum', column: 'prompt_tokens', as: 'prompt_tokens' },
      { fn: 'sum', column: 'cached_tokens', as: 'cached_tokens' },
      { fn: 'sum', column: 'completion_tokens', as: 'completion_tokens' },
    ],
    order_by: [{ column: 'started_at', direction: 'desc' }],
  }),
});

export const firstTokenP95 = defineQuestion('first_token_p95', {
  description: 'Time to the first token, by period and model.',
  parameters: {
    since: sinceParameter('-24h'),
    by: bucketParameter('hour'),
    model: textParameter('Only this model.'),
    wire: textParameter('Only this wire.'),
  },
  query: (parameters) => ({
    surface: 'completions',
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'first_token_ms', op: 'is_null', value: false },
      { column: 'model', op: 'eq', value: parameters.model },
      { column: 'wire', op: 'eq', value: parameters.wire },
    ),
    group_by: [{ column: 'started_at', bucket: parameters.by }, 'model'],
    aggregate: [
      { fn: 'count', as: 'answers' },
      { fn: 'p50', column: 'first_token_ms', as: 'p50_ms' },
      { fn: 'p95', column: 'first_token_ms', as: 'p95_ms' },
      { fn: 'max', column: 'first_token_ms', as: 'max_ms' },
    ],
    order_by: [{ column: 'started_at', direction: 'desc' }],
  }),
});

export const loadByHour = defineQuestion('load', {
  description: 'Load by period: number of completions, tokens, time in the queue and speed.',
  parameters: {
    since: sinceParameter('-24h'),
    by: bucketParameter('hour'),
    model: textParameter('Only this model.'),
  },
  query: (parameters) => ({
    surface: 'completions',
    where: definedConditions(sinceCondition('started_at', parameters.since), {
      column: 'model',
      op: 'eq',
      value: parameters.model,
    }),
    group_by: [{ column: 'started_at', bucket: parameters.by }],
    aggregate: [
      { fn: 'count', as: 'answers' },
      { fn: 'sum', column: 'prompt_tokens', as: 'prompt_tokens' },
      { fn: 'sum', column: 'completion_tokens', as: 'completion_tokens' },
      { fn: 'p95', column: 'queued_ms', as: 'p95_queued_ms' },
      { fn: 'p50', column: 'decode_tps', as: 'p50_decode_tps' },
      { fn: 'p95', column: 'total_ms', as: 'p95_total_ms' },
    ],
    order_by: [{ column: 'started_at', direction: 'desc' }],
  }),
});

export const errorsByWire = defineQuestion('errors_by_wire', {
  description: 'Requests that failed, were refused or were abandoned: how many, on which wire, and why.',
  parameters: { since: sinceParameter('-24h'), wire: textParameter('Only this wire.') },
  query: (parameters) => ({
    surface: 'completions',
    where: definedConditions(
      sinceCondition('started_at', parameters.since),
      { column: 'outcome', op: 'ne', value: 'ok' },
      { column: 'wire', op: 'eq', value: parameters.wire },
    ),
    group_by: ['wire', 'outcome', 'status', 'code'],
    aggregate: [
      { fn: 'count', as: 'requests' },
      { fn: 'min', column: 'started_at', as: 'first_at' },
      { fn: 'max', column: 'started_at', as: 'last_at' },
    ],
    order_by: [{ column: 'requests', direction: 'desc' }],
  }),
});

export const measurementCoverage = defineQuestion('measurement_coverage', {
  description: 'For how many completions of each wire times and token counts were measured.',
  parameters: { since: sinceParameter('-7d') },
  query: (parameters) => ({
    surface: 'completions',
    where: [sinceCondition('started_at', parameters.since)],
    group_by: ['wire', 'outcome'],
    aggregate: [
      { fn: 'count', as: 'answers' },
      { fn: 'count', column: 'prompt_tokens', as: 'with_prompt_tokens' },
      { fn: 'count', column: 'completion_tokens', as: 'with_completion_tokens' },
      { fn: 'count', column: 'first_token_ms', as: 'with_first_token_ms' },
      { fn: 'count', column: 'prefill_ms', as: 'with_prefill_ms' },
      { fn: 'count', column: 'decode_ms', as: 'with_decode_ms' },
      { fn: 'count', column: 'trace_id', as: 'with_trace_id' },
    ],
    order_by: [{ column: 'answers', direction: 'desc' }],
  }),
});
