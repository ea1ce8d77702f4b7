import { type Kysely, sql } from 'kysely';
import { createTable, type Table } from './create-table.ts';

const started = 'started_at endpoint_id state';
const ended = 'ended_at outcome last_event result session_id';
const tokens = 'prompt_tokens completion_tokens';

/** Only texts and integers, which both databases treat alike. `schema.ts` documents the columns. */
const tables: Readonly<Record<string, Table>> = {
  counters: { key: 'name', text: 'name', count: 'value' },
  acts: {
    key: 'seq',
    count: 'seq',
    text: 'at endpoint_id verb target by outcome',
    optionalText: 'reason note details',
  },
  agents: { key: 'name', text: 'name spec created_at updated_at' },
  tasks: {
    key: 'id',
    text: `id ${started} agent title request engine model`,
    optionalText: `${ended} cwd idempotency_key request_digest`,
    count: 'n turns',
    optionalCount: tokens,
  },
  events: { key: 'stream seq', text: 'stream ts event', count: 'seq' },
  pending: {
    key: 'id',
    text: 'id endpoint_id kind tool agent intent summary risk payload state created_at expires_at',
    optionalText: 'task_id run_id step session_id path diff base_hash output applier decided_at decided_by',
    count: 'n',
  },
  workflows: {
    key: 'name',
    text: 'name source digest created_at updated_at',
    optionalText: 'origin version description',
  },
  runs: {
    key: 'id',
    text: `id ${started} workflow source digest inputs`,
    optionalText: `${ended} waiting_on suspend_kind gate requested input retried_from engine model`,
    count: 'resumed',
    optionalCount: `wrapper_cycle ${tokens}`,
  },
  run_steps: {
    key: 'run_id cycle step',
    text: 'run_id step state started_at',
    optionalText: 'ended_at output error gate_inputs',
    count: 'cycle position attempts side_effects',
  },
  signals: { key: 'seq', count: 'seq', text: 'name at data' },
  external_sessions: {
    key: 'id',
    text: 'id endpoint_id secret_hash harness status started_at beat_at',
    optionalText:
      'client title cwd labels idempotency_key last_event tokens_claimed ended_at outcome close_reason',
    optionalCount: 'pid',
  },
  store_sessions: {
    key: 'id',
    text: 'id endpoint_id capability_hash kind subject opened_at',
    optionalText: 'closed_at revoked_at',
    count: 'seq',
  },
  receipts: {
    key: 'endpoint_id seq',
    text: 'endpoint_id id kind ended_at receipt prev_digest digest',
    count: 'seq',
  },
  peers: { key: 'name', text: 'name token_hash minted_at', optionalText: 'revoked_at' },
};

/** Name, table, columns. */
const indexes = [
  ['tasks_newest', 'tasks', ['endpoint_id', 'started_at', 'n']],
  ['tasks_by_state', 'tasks', ['state', 'ended_at']],
  ['runs_newest', 'runs', ['endpoint_id', 'started_at', 'id']],
  ['runs_by_state', 'runs', ['state', 'ended_at']],
  ['runs_open', 'runs', ['endpoint_id', 'ended_at']],
  ['pending_by_state', 'pending', ['state', 'n']],
  ['external_by_end', 'external_sessions', ['ended_at']],
  ['signals_by_name', 'signals', ['name', 'seq']],
  ['store_sessions_by_subject', 'store_sessions', ['subject']],
  ['store_sessions_open', 'store_sessions', ['endpoint_id', 'closed_at']],
] as const;

/** Unique indexes. Rows with null in such a column do not conflict. */
const uniques = [
  ['tasks_idempotency', 'tasks', ['idempotency_key']],
  ['external_idempotency', 'external_sessions', ['idempotency_key']],
  ['receipts_by_id', 'receipts', ['id']],
] as const;

/** Counters for the numbers of tasks, pending changes, acts, signals and store sessions. */
const counters = ['task', 'pending', 'act', 'signal', 'session'];

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [name, table] of Object.entries(tables)) await createTable(db, name, table);
  for (const [name, table, columns] of indexes)
    await db.schema
      .createIndex(name)
      .on(table)
      .columns([...columns])
      .execute();
  for (const [name, table, columns] of uniques)
    await db.schema
      .createIndex(name)
      .unique()
      .on(table)
      .columns([...columns])
      .execute();
  for (const name of counters) await sql`insert into counters (name, value) values (${name}, 0)`.execute(db);
}
