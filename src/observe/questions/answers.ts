import { by, from, named, question, since, where } from './question.ts';

export const slowestTurns = question('slowest_turns', {
  description: 'The answers of models that took longest, and what they spent their time on.',
  parameters: {
    since: from('-24h'),
    wire: named('Only of this wire: chat, messages, ollama..., or agent for the turns of agents.'),
    agent: named('Only of this agent.'),
    model: named('Only of this model.'),
  },
  query: (asked) => ({
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
    where: where(
      since('started_at', asked.since),
      { column: 'total_ms', op: 'is_null', value: false },
      { column: 'wire', op: 'eq', value: asked.wire },
      { column: 'agent', op: 'eq', value: asked.agent },
      { column: 'model', op: 'eq', value: asked.model },
    ),
    order_by: [{ column: 'total_ms', direction: 'desc' }],
    limit: 20,
  }),
});

export const tokensByDayAndAgent = question('tokens_by_day_and_agent', {
  description:
    'Tokens of prompts and answers for each day, agent and model; without an agent, of requests from outside.',
  parameters: { since: from('-30d'), agent: named('Only of this agent.') },
  query: (asked) => ({
    surface: 'completions',
    where: where(since('started_at', asked.since), { column: 'agent', op: 'eq', value: asked.agent }),
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

export const firstTokenP95 = question('first_token_p95', {
  description:
    'How long people wait for the first piece of an answer, for each part of the time and each model.',
  parameters: {
    since: from('-24h'),
    by: by('hour'),
    model: named('Only of this model.'),
    wire: named('Only of this wire.'),
  },
  query: (asked) => ({
    surface: 'completions',
    where: where(
      since('started_at', asked.since),
      { column: 'first_token_ms', op: 'is_null', value: false },
      { column: 'model', op: 'eq', value: asked.model },
      { column: 'wire', op: 'eq', value: asked.wire },
    ),
    group_by: [{ column: 'started_at', bucket: asked.by }, 'model'],
    aggregate: [
      { fn: 'count', as: 'answers' },
      { fn: 'p50', column: 'first_token_ms', as: 'p50_ms' },
      { fn: 'p95', column: 'first_token_ms', as: 'p95_ms' },
      { fn: 'max', column: 'first_token_ms', as: 'max_ms' },
    ],
    order_by: [{ column: 'started_at', direction: 'desc' }],
  }),
});

export const loadByHour = question('load', {
  description: 'How much was asked of the models, how long it waited and how fast it was answered.',
  parameters: { since: from('-24h'), by: by('hour'), model: named('Only of this model.') },
  query: (asked) => ({
    surface: 'completions',
    where: where(since('started_at', asked.since), { column: 'model', op: 'eq', value: asked.model }),
    group_by: [{ column: 'started_at', bucket: asked.by }],
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

export const errorsByWire = question('errors_by_wire', {
  description: 'Requests that were not answered as they should be: how many, on which wire, and why.',
  parameters: { since: from('-24h'), wire: named('Only of this wire.') },
  query: (asked) => ({
    surface: 'completions',
    where: where(
      since('started_at', asked.since),
      { column: 'outcome', op: 'ne', value: 'ok' },
      { column: 'wire', op: 'eq', value: asked.wire },
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

export const measurementCoverage = question('measurement_coverage', {
  description:
    'Of how many answers it is known how long they took and how many tokens they had, on each wire.',
  parameters: { since: from('-7d') },
  query: (asked) => ({
    surface: 'completions',
    where: [since('started_at', asked.since)],
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
