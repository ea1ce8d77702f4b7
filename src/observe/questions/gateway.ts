import {
  bucketParameter,
  sinceParameter,
  textParameter,
  defineQuestion,
  sinceCondition,
  definedConditions,
} from './question.ts';

export const costByGatewayKey = defineQuestion('cost_by_gateway_key', {
  description: 'Cost and tokens of each gateway key, most expensive first. Money is in nanodollars.',
  parameters: {
    since: sinceParameter('-30d'),
    account: textParameter('Only this account.'),
    model: textParameter('Only this model.'),
  },
  query: (parameters) => ({
    surface: 'gateway_requests',
    where: definedConditions(
      sinceCondition('ended_at', parameters.since),
      { column: 'account', op: 'eq', value: parameters.account },
      { column: 'effective_model', op: 'eq', value: parameters.model },
    ),
    group_by: ['key_id', 'key_label', 'account'],
    aggregate: [
      { fn: 'count', as: 'requests' },
      { fn: 'sum', column: 'cost', as: 'cost' },
      { fn: 'sum', column: 'charged', as: 'charged' },
      { fn: 'sum', column: 'overrun', as: 'overrun' },
      { fn: 'sum', column: 'fresh_tokens', as: 'fresh_tokens' },
      { fn: 'sum', column: 'cache_read_tokens', as: 'cache_read_tokens' },
      { fn: 'sum', column: 'completion_tokens', as: 'completion_tokens' },
    ],
    order_by: [{ column: 'cost', direction: 'desc' }],
  }),
});

export const gatewayProviders = defineQuestion('gateway_providers', {
  description: 'Providers of the gateway by period: requests, outcomes, latency and cost.',
  parameters: {
    since: sinceParameter('-24h'),
    by: bucketParameter('day'),
    provider: textParameter('Only this provider.'),
  },
  query: (parameters) => ({
    surface: 'gateway_requests',
    where: definedConditions(sinceCondition('ended_at', parameters.since), {
      column: 'provider',
      op: 'eq',
      value: parameters.provider,
    }),
    group_by: [{ column: 'ended_at', bucket: parameters.by }, 'provider', 'effective_model', 'outcome'],
    aggregate: [
      { fn: 'count', as: 'requests' },
      { fn: 'p50', column: 'first_byte_ms', as: 'p50_first_byte_ms' },
      { fn: 'p95', column: 'first_byte_ms', as: 'p95_first_byte_ms' },
      { fn: 'p95', column: 'total_ms', as: 'p95_total_ms' },
      { fn: 'sum', column: 'cost', as: 'cost' },
    ],
    order_by: [
      { column: 'ended_at', direction: 'desc' },
      { column: 'requests', direction: 'desc' },
    ],
  }),
});
