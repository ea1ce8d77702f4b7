import { DatabaseSync } from 'node:sqlite';
import { GatewayStore } from '../../src/gateway/store/index.ts';
import { Observe, type ObserveOptions } from '../../src/observe/observe.ts';
import { Store } from '../../src/store/index.ts';
import { administer } from './databases.ts';
import { entryPath } from './host.ts';

export const observeWorker = entryPath('observe-worker');
export const now = new Date('2026-06-15T12:00:00.000Z');

type Row = Readonly<Record<string, string | number | null>>;

export interface ObservedHost {
  readonly observe: Observe;
  /** As the host itself does. */
  write(sql: string): Promise<void>;
  insert(table: string, rows: readonly Row[]): Promise<void>;
}

const pathOf = (url: string) => /^sqlite:(.+)$/s.exec(url)?.[1];
const databaseOf = (url: string) => /^postgres:\/\/\/([^?]+)/.exec(url)?.[1] ?? '';

/** The plane over a database with the host's tables and the gateway's. */
export async function observing(
  url: string,
  undo: (() => unknown)[],
  options: Partial<ObserveOptions> = {},
): Promise<ObservedHost> {
  await (await Store.open({ url, endpointId: 'here' })).close();
  await (await GatewayStore.open({ url, replicaId: 'one' })).close();
  // A machine with other work is given more time for the same.
  const usual = { worker: observeWorker, now: () => now, budgetMs: 120_000 };
  const observe = await Observe.open({ database: url, ...usual, ...options });
  undo.push(() => observe.close());
  const path = pathOf(url);
  const write = async (sql: string) => {
    if (path === undefined) return void (await administer(sql, databaseOf(url)));
    const db = new DatabaseSync(path, { timeout: 60_000 });
    db.exec(sql);
    db.close();
  };
  return {
    observe,
    write,
    async insert(table, rows) {
      for (const row of rows) {
        const names = Object.keys(row).map((name) => `"${name}"`);
        await write(
          `insert into ${table} (${names.join(', ')}) values (${Object.values(row).map(literal).join(', ')})`,
        );
      }
    },
  };
}

const literal = (value: string | number | null): string =>
  typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);

const at = (time: string) => `2026-06-15T${time}:00.000Z`;
const here = { endpoint_id: 'here' };

export const completion = (id: string, more: Row = {}): Row => ({
  id,
  ...here,
  wire: 'chat',
  operation: 'chat',
  by: 'operator',
  engine: 'resident',
  stream: 1,
  model: 'small',
  outcome: 'ok',
  started_at: at('11:30'),
  ended_at: at('11:31'),
  prompt_tokens: 10,
  completion_tokens: 1,
  ...more,
});

const task = { ...here, request: '{}', engine: 'resident', model: 'small', title: 'Look', turns: 2 };
const run = { ...here, workflow: 'nightly', source: '', digest: 'd', resumed: 0, inputs: '{}' };
const pending = {
  ...here,
  kind: 'exec',
  tool: 'run',
  agent: 'scout',
  intent: '',
  summary: 'run the tests',
  risk: 'high',
  payload: '{}',
  expires_at: at('23:00'),
};
const act = { ...here, verb: 'approve', by: 'operator', outcome: 'applied' };
const external = { ...here, secret_hash: '', harness: 'editor', status: 'running', beat_at: at('10:30') };
const verdict = { ...here, source: 'gate', mode: 'strict', at: at('10:00') };
const request = {
  account_id: 'a1',
  requested_model: 'large',
  effective_model: 'large',
  provider: 'there',
  wire: 'chat',
  replica_id: 'one',
  reserved_at: at('10:00'),
  ended: 'settled',
  ended_at: at('10:01'),
  stream: 0,
  byok: 0,
  amount: 4503599627370498,
  estimate: 1,
  overrun: 0,
  cost_fresh: 0,
  cost_cache_write: 0,
  cost_cache_read: 0,
  cost_output: 0,
  outcome: 'completed',
};

/** A little of everything that surfaces are of. */
export async function wholeHost(host: ObservedHost): Promise<void> {
  const insert: ObservedHost['insert'] = (table, rows) => host.insert(table, rows);
  await insert('completions', [
    completion('c1', { total_ms: 100, first_token_ms: 10 }),
    completion('c2', { total_ms: 500, first_token_ms: 50 }),
    completion('c3', {
      outcome: 'failed',
      status: 500,
      code: 'engine_failed',
      started_at: at('11:40'),
    }),
    completion('t1:1', {
      wire: 'agent',
      agent: 'scout',
      subject: 't1',
      by: 'agent:scout',
      prompt_tokens: 30,
      completion_tokens: 3,
      total_ms: 900,
      first_token_ms: 90,
    }),
  ]);
  await insert('spans', [
    {
      ...here,
      id: 't1:call_1',
      kind: 'tool',
      name: 'fs_read',
      outcome: 'ok',
      subject: 't1',
      agent: 'scout',
      started_at: at('11:01'),
      ended_at: at('11:02'),
      total_ms: 60_000,
    },
  ]);
  await insert('tasks', [
    {
      ...task,
      id: 't1',
      n: 1,
      agent: 'scout',
      state: 'completed',
      outcome: 'answer',
      started_at: at('11:00'),
    },
    {
      ...task,
      id: 't2',
      n: 2,
      agent: 'scout',
      state: 'failed',
      outcome: 'turn_cap',
      last_event: 'it took too many turns',
      started_at: at('11:10'),
    },
  ]);
  const gate = { kind: 'input', since_at: at('11:00') };
  await insert('runs', [
    { ...run, id: 'r1', state: 'failed', last_event: 'the tests do not pass', started_at: at('09:00') },
    {
      ...run,
      id: 'r2',
      state: 'suspended',
      waiting_on: 'input',
      gate: JSON.stringify({ ...gate, step: 'ask' }),
      started_at: at('09:30'),
    },
    {
      ...run,
      id: 'r3',
      state: 'suspended',
      waiting_on: 'schedule',
      gate: JSON.stringify({ ...gate, since_at: at('10:00') }),
      started_at: at('09:40'),
    },
  ]);
  const step = { run_id: 'r1', cycle: 0, side_effects: 0, started_at: at('09:01') };
  await insert('run_steps', [
    { ...step, step: 'fetch', position: 0, state: 'completed', attempts: 1 },
    { ...step, step: 'check', position: 1, state: 'failed', attempts: 3, error: 'exit code 1' },
  ]);
  await insert('pending', [
    { ...pending, id: 'p1', n: 1, state: 'staged', created_at: at('11:00') },
    { ...pending, id: 'p2', n: 2, state: 'staged', created_at: at('11:59') },
    {
      ...pending,
      id: 'p3',
      n: 3,
      state: 'applied',
      created_at: at('10:00'),
      decided_at: '2026-06-15T10:00:30.000Z',
    },
  ]);
  await insert('acts', [
    { ...act, seq: 1, at: at('10:00'), target: 'p0' },
    { ...act, seq: 2, at: at('10:10'), target: 'p3' },
    {
      ...act,
      seq: 3,
      at: at('10:20'),
      target: 'p1',
      by: 'peer:laptop',
      outcome: 'refused',
      reason: 'not_yours',
    },
  ]);
  await insert('external_sessions', [
    {
      ...external,
      id: 'x1',
      started_at: at('10:00'),
      ended_at: at('10:40'),
      outcome: 'failed',
      close_reason: 'heartbeat_lost',
    },
    { ...external, id: 'x2', started_at: at('10:00') },
  ]);
  await insert('parity', [
    { ...verdict, id: 'v1', kernel: 'fast', ok: 1, nmse: 0.25 },
    { ...verdict, id: 'v2', kernel: 'fast', ok: 1, nmse: 0.5 },
    { ...verdict, id: 'v3', kernel: 'wrong', ok: 0, failed_stage: 'cases' },
  ]);
  await insert('bench', [
    {
      ...here,
      id: 'b1',
      at: at('10:30'),
      model: 'small',
      kernels: 'fast',
      verdict: 'faster',
      method: 'paired',
      fingerprint: 'f',
      rounds: 5,
    },
  ]);
  await insert('gateway_accounts', [
    { id: 'a1', kind: 'user', name: 'team', created_at: '', balance: 0, held: 0, allowance: 0, included: 0 },
  ]);
  const key = { account_id: 'a1', last4: 'last', created_at: '', spent: 0, held: 0 };
  await insert('gateway_keys', [
    { ...key, id: 'k1', hash: 'h1', label: 'ci' },
    { ...key, id: 'k2', hash: 'h2' },
  ]);
  await insert('gateway_requests', [
    { ...request, id: 'g1', key_id: 'k1', cost: 4503599627370497, charged: 4503599627370497 },
    { ...request, id: 'g2', key_id: 'k1', cost: 4503599627370498, charged: 4503599627370498 },
    { ...request, id: 'g3', key_id: 'k2', cost: 5, charged: 5, outcome: 'failed' },
  ]);
}
