import type { Surface } from '../types.ts';
import {
  endpoint,
  flag,
  integer,
  ms,
  nanousd,
  number,
  required,
  text,
  time,
  tokens,
  tokensOf,
} from './columns.ts';
import { tickOf, written } from './sql.ts';

/** Tokens a second; null where nothing was measured. */
const speed = {
  unit: 'tokens/s',
  sql: '(case when t.decode_ms > 0 then cast(t.completion_tokens as double precision) * 1000 / t.decode_ms end)',
};

export const completions: Surface = {
  name: 'completions',
  description: 'Answers of the resident model on every wire, and of the models of agents.',
  key: ['id', 'endpoint_id'],
  time: 'started_at',
  source: { from: 'completions', tables: ['completions'] },
  columns: [
    text('id', 'derived', 'Of the request; of an agent’s answer, TASK:N or RUN:N.', required),
    endpoint,
    text(
      'wire',
      'derived',
      'chat, completions, responses, messages, ollama, llama-cpp, embeddings, rerank or agent.',
      required,
    ),
    text('operation', 'derived', 'chat, text_completion or embeddings.', required),
    text('by', 'derived', 'Who asked: operator, session:ID, peer:NAME, local, agent:NAME or host.', required),
    flag('stream', 'derived', 'Whether the answer was asked for piece by piece.', required),
    text('requested_model', 'claimed', 'As the request named it.'),
    text('model', 'derived', 'The model that answered.'),
    integer('answers', 'measured', 'Answers, or texts of an embedding.', { unit: 'answers' }),
    text('outcome', 'derived', 'ok, refused, failed or abandoned.', required),
    integer('status', 'measured', 'Of HTTP.'),
    text('code', 'derived', 'Why it was not ok.'),
    text('finish', 'derived', 'stop, length or tool_calls.'),
    time('started_at', 'measured', 'When the request came.', required),
    time('ended_at', 'measured', 'When its answer was over.', required),
    text('engine', 'derived', 'resident or gateway: whose model answers.', required),
    ...tokensOf('t.engine', 'Of the prompt', 'Of the answer'),
    integer('cached_tokens', 'measured', 'Of the prompt, those that were there from before.', tokens),
    number('first_token_ms', 'measured', 'From the request to the first piece of its answer.', ms),
    number('queued_ms', 'measured', 'Waiting for a place.', ms),
    number('prefill_ms', 'measured', 'Reading the prompt.', ms),
    number('decode_ms', 'measured', 'Writing the answer.', ms),
    number('total_ms', 'measured', 'From the request to the end of its answer.', ms),
    number('decode_tps', 'derived', 'Tokens of the answer for each second of writing it.', speed),
    text('subject', 'derived', 'The task or run that it is for.'),
    text('agent', 'derived', 'The agent that it is for.'),
    text('trace_id', 'derived', 'Of OpenTelemetry.'),
  ],
};

const counted = (name: string, column: string, description: string) =>
  integer(name, 'claimed', `${description}, as the provider says.`, { ...tokens, sql: `t.${column}` });
const money = (name: string, description: string) =>
  integer(name, 'derived', description, { ...nanousd, ...required });

export const gatewayRequests: Surface = {
  name: 'gateway_requests',
  description: 'Requests at the gateway that are over, refused ones too: tokens, times and money.',
  key: ['id'],
  time: 'ended_at',
  source: {
    from: written`(select r.*, k.label as key_label, a.name as account${tickOf('r')} from gateway_requests as r left join gateway_keys as k on k.id = r.key_id left join gateway_accounts as a on a.id = r.account_id)`,
    tables: ['gateway_requests', 'gateway_keys', 'gateway_accounts'],
  },
  columns: [
    text('id', 'derived', 'Of the request.', required),
    text('account_id', 'derived', 'Who pays.', required),
    text('account', 'derived', 'The name of the account.'),
    text('key_id', 'derived', 'The key that it came with.', required),
    text('key_label', 'derived', 'What the key is called.'),
    text('requested_model', 'claimed', 'As the request named it.', required),
    text('effective_model', 'derived', 'The model that answered, or would have.', required),
    text('provider', 'derived', 'Whose model that is.', required),
    text('wire', 'derived', 'Of the caller.', required),
    flag('stream', 'derived', 'Whether the answer was asked for piece by piece.', required),
    flag('byok', 'derived', 'Whether the caller’s own credential was used.', required),
    text('ended', 'derived', 'settled, released, refused or crash.', required),
    text('outcome', 'derived', 'completed, failed, client_gone or cut; none after a crash.'),
    text('reason', 'derived', 'Why this model: as_requested, routed or provider_failover.'),
    integer('status', 'measured', 'Of HTTP.'),
    text('endpoint', 'derived', 'Where it was served, as its receipt says.'),
    time('started_at', 'measured', 'When money was held for it.', { ...required, sql: 't.reserved_at' }),
    time('ended_at', 'measured', 'When it was settled.', required),
    integer('first_byte_ms', 'measured', 'From the request to the first byte of its answer.', ms),
    integer('total_ms', 'measured', 'From the request to the end of its answer.', ms),
    counted('fresh_tokens', 'tokens_fresh', 'Of the input, those read anew'),
    counted('cache_read_tokens', 'tokens_cache_read', 'Of the input, those out of a cache'),
    counted('cache_write_tokens', 'tokens_cache_write', 'Of the input, those kept in a cache'),
    counted('completion_tokens', 'tokens_output', 'Of the answer'),
    counted('reasoning_tokens', 'tokens_reasoning', 'Of the answer, those of its reasoning'),
    money('cost', 'What it cost in all.'),
    money('charged', 'What the account paid of that.'),
    money('overrun', 'What the house paid of that.'),
    money('cost_fresh', 'Of the input that was read anew.'),
    money('cost_cache_read', 'Of the input out of a cache.'),
    money('cost_cache_write', 'Of the input kept in a cache.'),
    money('cost_output', 'Of the answer.'),
    integer('held', 'derived', 'The most that it could have cost, held meanwhile.', {
      ...nanousd,
      ...required,
      sql: 't.amount',
    }),
    text('pricing_identity', 'derived', 'Of the rate card.'),
    text('replica_id', 'derived', 'The gateway that served it.', required),
  ],
};
