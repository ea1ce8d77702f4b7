import type { Surface } from '../types.ts';
import {
  endpointColumn,
  flag,
  integer,
  ms,
  nanousd,
  number,
  required,
  text,
  time,
  tokens,
  tokenColumns,
} from './columns.ts';
import { rowNumberColumn, sqlTemplate } from './sql.ts';

/** Tokens per second; null if the time was not measured. */
const tokensPerSecond = {
  unit: 'tokens/s',
  sql: '(case when t.decode_ms > 0 then cast(t.completion_tokens as double precision) * 1000 / t.decode_ms end)',
};

export const completions: Surface = {
  name: 'completions',
  description: 'Completions of the resident model on every wire, and of the models that agents use.',
  key: ['id', 'endpoint_id'],
  time: 'started_at',
  source: { from: 'completions', tables: ['completions'] },
  columns: [
    text('id', 'derived', 'Id of the request. For an agent’s answer: TASK:N or RUN:N.', required),
    endpointColumn,
    text(
      'wire',
      'derived',
      'chat, completions, responses, messages, ollama, llama-cpp, embeddings, rerank or agent.',
      required,
    ),
    text('operation', 'derived', 'chat, text_completion, embeddings or rerank.', required),
    text(
      'by',
      'derived',
      'Who sent the request: operator, session:ID, peer:NAME, local, agent:NAME or host.',
      required,
    ),
    flag('stream', 'derived', 'Whether the client asked for a stream.', required),
    text('requested_model', 'claimed', 'Model name in the request.'),
    text('model', 'derived', 'Model that answered.'),
    integer('answers', 'measured', 'Number of answers, of embedded texts, or of ranked documents.', {
      unit: 'answers',
    }),
    text('outcome', 'derived', 'ok, refused, failed or abandoned.', required),
    integer('status', 'measured', 'HTTP status.'),
    text('code', 'derived', 'Error code, if the outcome is not ok.'),
    text('finish', 'derived', 'stop, length or tool_calls.'),
    time('started_at', 'measured', 'When the request arrived.', required),
    time('ended_at', 'measured', 'When the answer was complete.', required),
    text('engine', 'derived', 'Where the model runs: resident or gateway.', required),
    ...tokenColumns('t.engine', 'Prompt tokens', 'Completion tokens'),
    integer('cached_tokens', 'measured', 'Prompt tokens taken from the prefix cache.', tokens),
    number('first_token_ms', 'measured', 'From the request to the first piece of the answer.', ms),
    number('queued_ms', 'measured', 'Time in the queue.', ms),
    number('prefill_ms', 'measured', 'Time to process the prompt.', ms),
    number('decode_ms', 'measured', 'Time to generate the answer.', ms),
    number('total_ms', 'measured', 'From the request to the end of the answer.', ms),
    number('decode_tps', 'derived', 'Completion tokens per second of decode_ms.', tokensPerSecond),
    text('subject', 'derived', 'Task or run that the answer belongs to.'),
    text('agent', 'derived', 'Agent that the answer belongs to.'),
    text('trace_id', 'derived', 'OpenTelemetry trace id.'),
  ],
};

const claimedTokens = (name: string, column: string, description: string) =>
  integer(name, 'claimed', `${description}, reported by the provider.`, { ...tokens, sql: `t.${column}` });
const costColumn = (name: string, description: string) =>
  integer(name, 'derived', description, { ...nanousd, ...required });

export const gatewayRequests: Surface = {
  name: 'gateway_requests',
  description: 'Finished and refused requests at the gateway: tokens, times and money.',
  key: ['id'],
  time: 'ended_at',
  source: {
    from: sqlTemplate`(select r.*, k.label as key_label, a.name as account${rowNumberColumn('r')} from gateway_requests as r left join gateway_keys as k on k.id = r.key_id left join gateway_accounts as a on a.id = r.account_id)`,
    tables: ['gateway_requests', 'gateway_keys', 'gateway_accounts'],
  },
  columns: [
    text('id', 'derived', 'Request id.', required),
    text('account_id', 'derived', 'Account that pays.', required),
    text('account', 'derived', 'Account name.'),
    text('key_id', 'derived', 'API key of the request.', required),
    text('key_label', 'derived', 'Label of the key.'),
    text('requested_model', 'claimed', 'Model name in the request.', required),
    text('effective_model', 'derived', 'Model that answered, or would have answered.', required),
    text('provider', 'derived', 'Provider of that model.', required),
    text('wire', 'derived', 'Wire of the client.', required),
    flag('stream', 'derived', 'Whether the client asked for a stream.', required),
    flag('byok', 'derived', 'Whether the caller’s own provider credential was used.', required),
    text('ended', 'derived', 'settled, released, refused or crash.', required),
    text('outcome', 'derived', 'completed, failed, client_gone or cut; null after a crash.'),
    text('reason', 'derived', 'Why this model was used: as_requested, routed, provider_failover or cached.'),
    integer('status', 'measured', 'HTTP status.'),
    text('endpoint', 'derived', 'Where the request was served, as in its receipt.'),
    time('started_at', 'measured', 'When the hold was placed.', { ...required, sql: 't.reserved_at' }),
    time('ended_at', 'measured', 'When the request was settled.', required),
    integer('first_byte_ms', 'measured', 'From the request to the first byte of the answer.', ms),
    integer('total_ms', 'measured', 'From the request to the end of the answer.', ms),
    claimedTokens('fresh_tokens', 'tokens_fresh', 'Input tokens that were not cached'),
    claimedTokens('cache_read_tokens', 'tokens_cache_read', 'Input tokens read from a cache'),
    claimedTokens('cache_write_tokens', 'tokens_cache_write', 'Input tokens written to a cache'),
    claimedTokens('completion_tokens', 'tokens_output', 'Output tokens'),
    claimedTokens('reasoning_tokens', 'tokens_reasoning', 'Output tokens of reasoning'),
    costColumn('cost', 'Total cost.'),
    costColumn('charged', 'Part of the cost that the account paid.'),
    costColumn('overrun', 'Part of the cost that the gateway’s operator paid.'),
    costColumn('cost_fresh', 'Cost of input that was not cached.'),
    costColumn('cost_cache_read', 'Cost of input read from a cache.'),
    costColumn('cost_cache_write', 'Cost of input written to a cache.'),
    costColumn('cost_output', 'Cost of the output.'),
    costColumn('cost_tools', 'Cost of calls of tools that the provider ran.'),
    costColumn('cost_hedge', 'Cost of the attempt of a hedged request that did not answer.'),
    integer('held', 'derived', 'Amount of the hold: the maximum possible cost.', {
      ...nanousd,
      ...required,
      sql: 't.amount',
    }),
    text('pricing_identity', 'derived', 'Id of the rate card.'),
    text('replica_id', 'derived', 'Gateway replica that served the request.', required),
  ],
};
