import type { Kysely } from 'kysely';
import { createTable, type Table } from './create-table.ts';

/** Tables that only the observe plane reads. `schema.ts` documents the columns. */
const tables: Readonly<Record<string, Table>> = {
  completions: {
    key: 'endpoint_id id',
    text: 'id endpoint_id wire operation by engine outcome started_at ended_at',
    optionalText: 'requested_model model finish code subject agent trace_id',
    count: 'stream',
    optionalCount: 'status answers prompt_tokens cached_tokens completion_tokens',
    optionalNumber: 'first_token_ms queued_ms prefill_ms decode_ms total_ms',
  },
  parity: {
    key: 'id',
    text: 'id endpoint_id at source kernel mode',
    optionalText: 'op digest model failed_stage',
    count: 'ok',
    optionalCount: 'cases failed_cases seed',
    optionalNumber: 'nmse max_abs kl top1_agreement elapsed_ms',
  },
  bench: {
    key: 'id',
    text: 'id endpoint_id at model kernels verdict method fingerprint',
    count: 'rounds',
    optionalNumber:
      'baseline_prefill_tps baseline_decode_tps bound_prefill_tps bound_decode_tps ratio_low ratio_high elapsed_ms',
  },
  feed_gaps: { key: 'id', text: 'id endpoint_id surface from_at to_at reason', count: 'rows' },
};

const indexes = [
  ['completions_newest', 'completions', ['started_at', 'id', 'endpoint_id']],
  ['parity_newest', 'parity', ['at', 'id']],
  ['bench_newest', 'bench', ['at', 'id']],
  ['tasks_by_time', 'tasks', ['started_at', 'id']],
  ['runs_by_time', 'runs', ['started_at', 'id']],
  ['steps_by_time', 'run_steps', ['started_at', 'run_id', 'cycle', 'step']],
  ['receipts_by_time', 'receipts', ['ended_at', 'id']],
  ['pending_by_time', 'pending', ['created_at', 'id']],
  ['acts_by_time', 'acts', ['at', 'seq']],
  ['external_by_time', 'external_sessions', ['started_at', 'id']],
] as const;

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [name, table] of Object.entries(tables)) await createTable(db, name, table);
  for (const [name, table, columns] of indexes)
    await db.schema
      .createIndex(name)
      .on(table)
      .columns([...columns])
      .execute();
}
