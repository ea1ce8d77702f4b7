import { racks } from '../../src/tracing/index.ts';
import type { Cell, ObservedDatabase, TestRow } from './observe-databases.ts';

/** Texts that are difficult for databases and handwritten SQL: order, case, quotes, wildcards, surrogate pairs. */
export const texts = [
  '',
  ' a',
  'A',
  'a',
  'a%b',
  'ab',
  'axb',
  'Z',
  'zebra',
  'Ä',
  'ä',
  'a\u0308',
  '_',
  '%',
  "o'clock",
  '"',
  '\\',
  '😀',
  '\uFFFD',
  '\uFF5E',
  'failed',
  'running',
  "'; drop table tasks; --",
];

export const times = [
  '2026-06-15T11:59:30.250Z',
  '2026-06-15T11:59:30.251Z',
  '2026-06-15T11:41:00.000Z',
  '2026-06-15T10:05:59.999Z',
  '2026-06-14T23:59:59.999Z',
  '2026-06-01T00:00:00.000Z',
  '2026-02-28T12:00:00.000Z',
  '2024-02-29T12:00:00.001Z',
  '1999-12-31T23:59:59.999Z',
];
/** No times, though SQLite takes some for such. */
const oddTimes = ['', 'now', '2026-02-30T00:00:00.000Z', '2026-13-01T00:00:00.000Z', '2026-06-15', 'then'];

const jsons = [
  '{"prompt":12,"completion":3}',
  '{"prompt":900719925474099,"completion":0}',
  '{"prompt":1.5,"completion":"7"}',
  '{"kind":"time","step":"ask","since_at":"2026-06-15T10:00:00.000Z","until_at":"2026-06-16T10:00:00.000Z"}',
  '{"kind":"schedule","since_at":"2026-06-01T00:00:00.000Z","until_at":"then"}',
  '{"outcome":"failed","started_at":"2026-06-15T10:05:00.000Z","harness":"o\'clock \\"quoted\\" \\\\ \\u0041","tokens":{"prompt":5,"completion":6},"tokens_claimed":{"prompt":7,"completion":8},"exit_code":-1}',
  '{"outcome":"completed","summary":"\\"tokens\\":{\\"prompt\\":99}","started_at":"2026-06-01T00:00:00.000Z","agent":"ä😀","tokens":{"prompt":1,"completion":2}}',
  '{"client":"a\\u0000b","workflow":"nightly","close_reason":"heartbeat_lost","tokens_claimed":{"prompt":1,"completion":0}}',
  '{"agent":7,"exit_code":"1","harness":null}',
  '{"agent":"unterminated',
  'no JSON at all',
  '[]',
  '"agent"',
  '',
];

const flags = new Set('stream ok side_effects resumed byok'.split(' '));
const asJson = new Set('receipt gate tokens_claimed labels details attributes'.split(' '));
const isTime = (name: string) => name === 'at' || name.endsWith('_at');
/** A row that is alone with it: keys, and what else is unique. */
const unique = new Set('id n seq step idempotency_key hash event_id'.split(' '));

/** The same numbers for the same seed, from 0 up to 1. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
}

/** Rows with many ties and gaps, of whatever a table's columns take. */
export function rowsOf(columns: readonly TableColumn[], count: number, draw: () => number): TestRow[] {
  const one = <T>(list: readonly T[]): T => list[Math.floor(draw() * list.length)] as T;
  const cell = ({ name, type, notnull }: TableColumn, n: number): Cell => {
    if (unique.has(name)) return type === 'TEXT' ? `${name}${n % 7}-${n}` : n;
    if (notnull === 0 && draw() < 0.3) return null;
    if (name === 'run_id') return `id${n % 5}-${n % 5}`;
    if (flags.has(name)) return one([0, 1]);
    if (asJson.has(name)) return one(jsons);
    if (name === 'waiting_on') return one(['time', 'schedule', 'input']);
    if (isTime(name)) return draw() < 0.1 ? one(oddTimes) : one(times);
    if (type === 'TEXT') return one(texts);
    if (type === 'BIGINT' || type === 'INTEGER') return one([0, 1, 2, 3, 5, 8, 40, 1000, 4294967297]);
    return one([0, 0.1, 0.2, 0.25, 1, 1.5, 2.75, 1e-9, 12345.678, 1e12]);
  };
  return Array.from({ length: count }, (_, n) => {
    const row = Object.fromEntries(columns.map((column) => [column.name, cell(column, n)]));
    return 'overrun' in row ? { ...row, ...booked(one([0, 7, 2_000_000_000]), one([0, 5])) } : row;
  });
}

/** What the ledger holds to be always so. */
const booked = (charged: number, overrun: number) => ({
  amount: charged + 10,
  charged,
  overrun,
  cost: charged + overrun,
});

export const observedTables = [
  'tasks',
  'runs',
  'run_steps',
  'external_sessions',
  'receipts',
  'completions',
  'spans',
  'pending',
  'acts',
  'parity',
  'bench',
  'gateway_keys',
  'gateway_requests',
];

/** The same rows in all databases; those of the racks in SQLite's alone. */
export async function fill(
  [sqlite, ...others]: readonly [ObservedDatabase, ...ObservedDatabase[]],
  count: number,
  seed: number,
): Promise<void> {
  const draw = random(seed);
  const tables = [...observedTables, ...racks.map((rack) => `"${rack}".events`)];
  for (const table of tables) {
    const [schema, name] = table.includes('.') ? table.split('.') : ['main', table];
    const columns = await sqlite.read(`pragma ${schema}.table_info(${name})`);
    const known = columns.map((column) => ({
      name: String(column['name']),
      type: String(column['type']).toUpperCase(),
      notnull: Number(column['notnull']),
    }));
    // A key's spending is bounded; the rest of it is of no surface.
    const rows = rowsOf(known, count, draw).map((row) =>
      table === 'gateway_keys' ? { ...row, cap: null, held: 0 } : row,
    );
    for (const database of name === 'events' ? [sqlite] : [sqlite, ...others]) {
      await database.empty(table);
      await database.insert(table, rows);
    }
  }
}
