import { by, from, named, question, since, where } from './question.ts';

export const costByGatewayKey = question('cost_by_gateway_key', {
  description: 'Cost and tokens of each gateway key, most expensive first. Money is in nanodollars.',
  parameters: {
    since: from('-30d'),
    account: named('Only this account.'),
    model: named('Only this model.'),
  },
  query: (asked) => ({
    surface: 'gateway_requests',
    where: where(
      since('ended_at', asked.since),
      { column: 'account', op: 'eq', value: asked.account },
      { column: 'effective_model', op: 'eq', value: asked.model },
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

export const gatewayProviders = question('gateway_providers', {
  description: 'Providers of the gateway by period: requests, outcomes, latency and cost.',
  parameters: { since: from('-24h'), by: by('day'), provider: named('Only this provider.') },
  query: (asked) => ({
    surface: 'gateway_requests',
    where: where(since('ended_at', asked.since), { column: 'provider', op: 'eq', value: asked.provider }),
    group_by: [{ column: 'ended_at', bucket: asked.by }, 'provider', 'effective_model', 'outcome'],
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
