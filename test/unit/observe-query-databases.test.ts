import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { compile } from '../../src/observe/query/compile.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import {
  ask,
  askAll,
  coverageOf,
  now,
  type ObservedDatabase,
  postgresDatabase,
  sqliteDatabase,
  type TestRow,
} from '../support/observe-databases.ts';
import { alike } from '../support/observe-answers.ts';

const at = (minute: number) => `2026-06-15T11:${String(minute).padStart(2, '0')}:00.000Z`;
const completion = (n: number, more: TestRow = {}): TestRow => ({
  id: `c${n}`,
  endpoint_id: 'here',
  wire: 'chat',
  operation: 'chat',
  by: 'local',
  engine: 'resident',
  outcome: 'ok',
  started_at: at(n),
  ended_at: at(n + 1),
  stream: 0,
  ...more,
});
const external = (n: number, more: TestRow = {}): TestRow => ({
  id: `x${n}`,
  endpoint_id: 'here',
  secret_hash: 'planted',
  harness: 'h',
  status: 'running',
  started_at: at(n),
  beat_at: at(n),
  ...more,
});

/** The answers of all databases, which are the same. */
let databases: ObservedDatabase[] = [];
const answer = async (body: object) => {
  const [first, ...others] = await Promise.all(databases.map((database) => ask(database, body)));
  for (const other of others) alike(other.rows, first?.rows, body);
  return first?.rows ?? [];
};
const insert = async (table: string, rows: readonly TestRow[]) => {
  for (const database of databases) {
    await database.empty(table);
    await database.insert(table, rows);
  }
};

beforeAll(async () => {
  const postgres = await postgresDatabase();
  databases = [await sqliteDatabase(), ...(postgres ? [postgres] : [])];
});
afterAll(async () => {
  for (const database of databases) await database.close();
});

describe('conditions', () => {
  const found = async (where: object | object[]) =>
    (
      await answer({
        surface: 'completions',
        select: ['id'],
        where: [where].flat(),
        order_by: [{ column: 'id' }],
      })
    ).map(([id]) => id);
  beforeAll(() =>
    insert('completions', [
      completion(1, { model: 'Qwen%', prompt_tokens: 10, decode_ms: 1.5, stream: 1 }),
      completion(2, { model: 'qwen_7b', prompt_tokens: 20, decode_ms: 2.5 }),
      completion(3, { model: 'ällama 😀', prompt_tokens: 20 }),
      completion(4, { model: "o'qwen", decode_ms: 0 }),
      completion(5, { ended_at: at(50) }),
    ]),
  );

  it.each([
    ['model', 'eq', 'qwen_7b', ['c2']],
    ['model', 'eq', 'QWEN_7B', []],
    ['model', 'ne', 'qwen_7b', ['c1', 'c3', 'c4']],
    ['model', 'in', ['Qwen%', "o'qwen", 'x'], ['c1', 'c4']],
    ['model', 'not_in', ['Qwen%', "o'qwen", 'x'], ['c2', 'c3']],
    ['model', 'contains', 'wen', ['c1', 'c2', 'c4']],
    ['model', 'contains', '%', ['c1']],
    ['model', 'contains', '_', ['c2']],
    ['model', 'contains', '', ['c1', 'c2', 'c3', 'c4']],
    ['model', 'contains', "'", ['c4']],
    ['model', 'contains', '\0', []],
    ['model', 'starts_with', 'q', ['c2']],
    ['model', 'starts_with', 'Qwen%', ['c1']],
    ['model', 'starts_with', '_', []],
    ['model', 'starts_with', 'ällama 😀', ['c3']],
    ['model', 'starts_with', '', ['c1', 'c2', 'c3', 'c4']],
    ['model', 'is_null', true, ['c5']],
    ['model', 'is_null', false, ['c1', 'c2', 'c3', 'c4']],
    ['prompt_tokens', 'eq', 20, ['c2', 'c3']],
    ['prompt_tokens', 'ne', 20, ['c1']],
    ['prompt_tokens', 'lt', 20, ['c1']],
    ['prompt_tokens', 'lte', 20, ['c1', 'c2', 'c3']],
    ['prompt_tokens', 'gt', 10, ['c2', 'c3']],
    ['prompt_tokens', 'gte', 20, ['c2', 'c3']],
    ['prompt_tokens', 'in', [10, 30], ['c1']],
    ['prompt_tokens', 'not_in', [10, 30], ['c2', 'c3']],
    ['decode_ms', 'eq', 1.5, ['c1']],
    ['decode_ms', 'gt', 0, ['c1', 'c2']],
    ['decode_ms', 'lte', 1.5, ['c1', 'c4']],
    ['decode_ms', 'in', [0, 2.5], ['c2', 'c4']],
    ['stream', 'eq', true, ['c1']],
    ['stream', 'eq', false, ['c2', 'c3', 'c4', 'c5']],
    ['started_at', 'eq', at(3), ['c3']],
    ['started_at', 'lt', '2026-06-15T13:02:00+02:00', ['c1']],
    ['started_at', 'lte', at(2), ['c1', 'c2']],
    ['started_at', 'gt', at(3), ['c4', 'c5']],
    ['started_at', 'gte', '-57m', ['c3', 'c4', 'c5']],
    ['ended_at', 'gte', '-1h', ['c1', 'c2', 'c3', 'c4', 'c5']],
    ['ended_at', 'gt', '-0s', []],
    ['ended_at', 'gt', '-999999d', ['c1', 'c2', 'c3', 'c4', 'c5']],
  ])('%s %s %j', async (column, op, value, wanted) => {
    expect(await found({ column, op, value })).toEqual(wanted);
  });

  it('hold together', async () => {
    expect(
      await found([
        { column: 'model', op: 'contains', value: 'wen' },
        { column: 'prompt_tokens', op: 'gte', value: 10 },
        { column: 'stream', op: 'eq', value: false },
      ]),
    ).toEqual(['c2']);
  });
});

describe('rows', () => {
  it('are newest first, and pages continue after ties and null values', async () => {
    const rows = Array.from({ length: 60 }, (_, n) =>
      completion(n % 7, {
        id: `c${n}`,
        endpoint_id: n % 2 ? 'here' : 'there',
        model: n % 3 === 0 ? null : `m${n % 5}`,
        prompt_tokens: n % 4 === 0 ? null : n % 6,
      }),
    );
    await insert('completions', rows);
    const plain = { surface: 'completions', select: ['started_at', 'id'] };
    const newest = await answer(plain);
    const place = (row: unknown[]) => JSON.stringify(row);
    expect(newest.map(place)).toEqual(newest.map(place).toSorted((a, b) => (a < b ? 1 : -1)));
    for (const order of [
      [],
      [{ column: 'model' }],
      [{ column: 'model', direction: 'desc' }],
      [{ column: 'model' }, { column: 'prompt_tokens', direction: 'desc' }],
      [{ column: 'prompt_tokens', direction: 'desc' }, { column: 'stream' }, { column: 'model' }],
      [{ column: 'started_at' }],
    ]) {
      const body = {
        surface: 'completions',
        select: ['id', 'model', 'prompt_tokens'],
        ...(order.length > 0 ? { order_by: order } : {}),
      };
      const whole = await answer(body);
      expect(new Set(whole.map(([id]) => id)).size).toBe(60);
      const [first] = order;
      if (first && first.column !== 'started_at') {
        const known = whole.map((row) => row[first.column === 'model' ? 1 : 2] !== null);
        expect(known).toEqual([...known.filter((one) => one), ...known.filter((one) => !one)]);
      }
      for (const database of databases)
        for (const limit of [1, 7, 59, 60]) expect(await askAll(database, body, limit)).toEqual(whole);
    }
  });

  it('that arrive meanwhile do not move others to the next page', async () => {
    await insert(
      'completions',
      Array.from({ length: 10 }, (_, n) => completion(n)),
    );
    const body = { surface: 'completions', select: ['id'], limit: 4 };
    for (const database of databases) {
      const first = await ask(database, body);
      await database.insert('completions', [completion(30), completion(31)]);
      const second = await ask(database, { ...body, cursor: first.next });
      expect([...first.rows, ...second.rows].flat()).toEqual([
        'c9',
        'c8',
        'c7',
        'c6',
        'c5',
        'c4',
        'c3',
        'c2',
      ]);
    }
  });

  it('do not move on with the clock from page to page', async () => {
    const change = {
      endpoint_id: 'here',
      kind: 'exec',
      tool: 't',
      agent: 'a',
      intent: 'i',
      summary: 's',
      risk: 'low',
      payload: '{}',
      expires_at: at(59),
    };
    await insert(
      'pending',
      Array.from({ length: 12 }, (_, n) => ({
        ...change,
        id: `p${n}`,
        n,
        state: 'staged',
        created_at: at(n),
      })),
    );
    for (const direction of ['asc', 'desc']) {
      const body = {
        surface: 'pending',
        select: ['id', 'age_ms'],
        order_by: [{ column: 'age_ms', direction }],
        where: [{ column: 'created_at', op: 'gte', value: '-58m' }],
        limit: 3,
      };
      for (const database of databases) {
        const all: unknown[][] = [];
        let page = await ask(database, body, { at: new Date(at(59)) });
        for (let later = 1; ; later++) {
          all.push(...page.rows);
          if (page.next === undefined) break;
          page = await ask(
            database,
            { ...body, cursor: page.next },
            { at: new Date(Date.parse(at(59)) + later * 40_000) },
          );
        }
        const ids = Array.from({ length: 11 }, (_, n) => `p${n + 1}`);
        expect(all.map(([id]) => id)).toEqual(direction === 'desc' ? ids : ids.toReversed());
        expect(all.map(([, age]) => age)).toContain(48 * 60_000);
      }
    }
  });

  it('show flags, JSON and money beyond 2^53 as they are', async () => {
    const act = { endpoint_id: 'here', verb: 'approve', target: 'p1', by: 'operator', outcome: 'applied' };
    await insert('acts', [
      { seq: 1, at: at(1), ...act, details: '{"ok":true,"path":"a\\u0000b"}' },
      { seq: 2, at: at(2), ...act, details: 'no JSON' },
    ]);
    expect(await answer({ surface: 'acts', select: ['seq', 'details'] })).toEqual([
      [2, 'no JSON'],
      [1, { ok: true, path: 'a\0b' }],
    ]);
    await insert('completions', [completion(1, { stream: 1, prompt_tokens: 9007199254740993n })]);
    expect(await answer({ surface: 'completions', select: ['stream', 'prompt_tokens'] })).toEqual([
      [true, '9007199254740993'],
    ]);
  });
});

describe('figures', () => {
  it('reported by a gateway are never in the column of those counted by the host', async () => {
    const agentUsage = { engine: 'gateway', wire: 'agent', prompt_tokens: 20, completion_tokens: 2 };
    await insert('completions', [
      completion(1, { prompt_tokens: 10, completion_tokens: 1 }),
      completion(2, agentUsage),
    ]);
    const figures = [
      'prompt_tokens',
      'completion_tokens',
      'prompt_tokens_claimed',
      'completion_tokens_claimed',
    ];
    expect(await answer({ surface: 'completions', select: figures })).toEqual([
      [null, null, 20, 2],
      [10, 1, null, null],
    ]);
  });
});

describe('groups', () => {
  it('add up exactly, and no sum is too large', async () => {
    await insert(
      'completions',
      Array.from({ length: 9 }, (_, n) => completion(n, { prompt_tokens: 2n ** 53n - 1n, model: 'a' })),
    );
    const sum = { surface: 'completions', aggregate: [{ fn: 'sum', column: 'prompt_tokens' }] };
    expect(await answer(sum)).toEqual([[String(9n * (2n ** 53n - 1n))]]);
    const largeCount = 2n ** 62n;
    await insert(
      'completions',
      Array.from({ length: 9 }, (_, n) =>
        completion(n, { prompt_tokens: largeCount, model: n < 4 ? 'a' : 'b' }),
      ),
    );
    for (const database of databases) {
      const { rows } = await ask(database, sum);
      expect(Number(rows[0]?.[0])).toBeCloseTo(Number(9n * largeCount), -6);
      const body = { ...sum, group_by: ['model'], order_by: [{ column: 'sum_prompt_tokens' }] };
      const groups = await askAll(database, body, 1);
      expect(groups.map(([model]) => model)).toEqual(['a', 'b']);
    }
  });

  it('have the same percentiles, means and counts in both', async () => {
    const values = [5, 1, 4, 1.5, 9, 2.6, 5, 3.5, 8.9, 7.9];
    await insert('completions', [
      ...values.map((total_ms, n) => completion(n, { total_ms, prompt_tokens: n })),
      completion(20),
      completion(21, { total_ms: Infinity }),
    ]);
    const [row] = await answer({
      surface: 'completions',
      where: [{ column: 'id', op: 'ne', value: 'c21' }],
      aggregate: [
        { fn: 'p50', column: 'total_ms' },
        { fn: 'p95', column: 'total_ms' },
        { fn: 'p99', column: 'prompt_tokens' },
        { fn: 'avg', column: 'total_ms' },
        { fn: 'avg', column: 'stream' },
        { fn: 'count' },
        { fn: 'count', column: 'total_ms' },
        { fn: 'count_distinct', column: 'total_ms' },
        { fn: 'min', column: 'started_at' },
        { fn: 'max', column: 'total_ms' },
      ],
    });
    const sorted = values.toSorted((a, b) => a - b);
    alike(
      row,
      [4.5, 8.9 + (9 - 8.9) * 0.55, 8.91, sorted.reduce((a, b) => a + b) / 10, 0, 11, 10, 9, at(0), 9],
      '',
    );
    // A figure that is none does not make the others unreadable.
    expect(await answer({ surface: 'completions', aggregate: [{ fn: 'p50', column: 'total_ms' }] })).toEqual([
      [4.5],
    ]);
  });

  it('are of minutes, hours, days and months, the newest first', async () => {
    const starts = [
      '2026-06-15T11:09:59.999Z',
      '2026-06-15T11:10:00.000Z',
      '2026-06-15T11:19:00.000Z',
      '2026-06-14T23:59:59.999Z',
      '2026-05-31T00:00:00.000Z',
    ];
    await insert(
      'completions',
      starts.map((started_at, n) => completion(n, { started_at })),
    );
    const per = async (bucket: string) =>
      await answer({
        surface: 'completions',
        group_by: [{ column: 'started_at', bucket }],
        aggregate: [{ fn: 'count' }],
      });
    expect(await per('minute')).toEqual([
      ['2026-06-15T11:19:00.000Z', 1],
      ['2026-06-15T11:10:00.000Z', 1],
      ['2026-06-15T11:09:00.000Z', 1],
      ['2026-06-14T23:59:00.000Z', 1],
      ['2026-05-31T00:00:00.000Z', 1],
    ]);
    expect((await per('ten_minutes')).slice(0, 2)).toEqual([
      ['2026-06-15T11:10:00.000Z', 2],
      ['2026-06-15T11:00:00.000Z', 1],
    ]);
    expect((await per('hour'))[0]).toEqual(['2026-06-15T11:00:00.000Z', 3]);
    expect((await per('day')).slice(0, 2)).toEqual([
      ['2026-06-15T00:00:00.000Z', 3],
      ['2026-06-14T00:00:00.000Z', 1],
    ]);
    expect(await per('month')).toEqual([
      ['2026-06-01T00:00:00.000Z', 4],
      ['2026-05-01T00:00:00.000Z', 1],
    ]);
  });

  it('come in pages, ties and unknown ones too', async () => {
    await insert(
      'completions',
      Array.from({ length: 40 }, (_, n) =>
        completion(n % 5, {
          id: `c${n}`,
          model: n % 4 === 0 ? null : `m${n % 9}`,
          wire: `w${n % 3}`,
          decode_ms: n % 5 === 0 ? null : n / 7,
        }),
      ),
    );
    for (const order of [
      [],
      [{ column: 'count' }],
      [{ column: 'avg_decode_ms', direction: 'desc' }],
      [{ column: 'max_decode_ms' }],
    ]) {
      const body = {
        surface: 'completions',
        group_by: ['model', 'wire'],
        aggregate: [{ fn: 'count' }, { fn: 'avg', column: 'decode_ms' }, { fn: 'max', column: 'decode_ms' }],
        ...(order.length > 0 ? { order_by: order } : {}),
      };
      for (const database of databases) {
        const { rows } = await ask(database, { ...body, limit: 1000 });
        for (const limit of [1, 3, 8]) expect(await askAll(database, body, limit)).toEqual(rows);
      }
    }
  });
});

describe('surfaces', () => {
  it('measured and claimed figures are never in one column', async () => {
    const common = { endpoint_id: 'here', started_at: at(1) };
    await insert('tasks', [
      {
        ...common,
        id: 't1',
        n: 1,
        agent: 'a',
        title: 'x',
        request: '{}',
        engine: 'resident',
        model: 'm',
        state: 'completed',
        turns: 1,
        prompt_tokens: 5,
        completion_tokens: 6,
      },
    ]);
    await insert('runs', []);
    await insert('external_sessions', [
      external(2, { tokens_claimed: '{"prompt":70,"completion":8}', title: 'theirs', last_event: 'says so' }),
      external(3, { ended_at: at(9), outcome: 'failed', close_reason: 'heartbeat_lost' }),
    ]);
    expect(
      await answer({
        surface: 'sessions',
        select: [
          'id',
          'state',
          'title',
          'title_claimed',
          'prompt_tokens',
          'prompt_tokens_claimed',
          'last_event',
          'last_event_claimed',
          'duration_ms',
        ],
      }),
    ).toEqual([
      ['x3', 'failed', null, null, null, null, 'failed: heartbeat_lost', null, 360_000],
      ['x2', 'running', null, 'theirs', null, 70, null, 'says so', null],
      ['t1', 'completed', 'x', null, 5, null, null, null, null],
    ]);
    for (const database of databases) {
      const { with_value, ...rest } = await coverageOf(database, {
        surface: 'sessions',
        select: ['id', 'prompt_tokens', 'prompt_tokens_claimed'],
      });
      expect(rest).toEqual({ from: at(1), to: at(3), rows: 3 });
      expect(with_value).toEqual({ prompt_tokens: 1, prompt_tokens_claimed: 1 });
    }
  });

  it('what a run waits for, and since when, is read out of its gate', async () => {
    const run = {
      endpoint_id: 'here',
      started_at: at(1),
      workflow: 'w',
      source: 's',
      digest: 'd',
      inputs: '{}',
      resumed: 0,
    };
    const gate = {
      kind: 'time',
      step: 'ask "them"',
      since_at: at(5),
      message: '"since_at":"never" \u0000',
      until_at: at(9),
    };
    await insert('runs', [
      { ...run, id: 'r1', state: 'suspended', waiting_on: 'time', gate: JSON.stringify(gate) },
      { ...run, id: 'r2', state: 'failed', last_event: 'The step x failed' },
    ]);
    expect(
      await answer({
        surface: 'runs',
        select: ['id', 'waiting_step', 'waiting_since', 'waiting_until', 'failure'],
        order_by: [{ column: 'id' }],
      }),
    ).toEqual([
      ['r1', 'ask "them"', at(5), at(9), null],
      ['r2', null, null, null, 'The step x failed'],
    ]);
  });

  it('receipts are read correctly, whatever texts they contain', async () => {
    const receipt = (more: object) =>
      JSON.stringify({ id: 'x', outcome: 'completed', started_at: at(1), ...more });
    const row = { endpoint_id: 'here', kind: 'task', ended_at: at(2), prev_digest: 'p', digest: 'd' };
    await insert('receipts', [
      {
        ...row,
        id: 'a',
        seq: 1,
        receipt: receipt({
          title: '"tokens":{"prompt":9}',
          tokens: { prompt: 1, completion: 2 },
          agent: 'é😀"\\\n\u0000',
        }),
      },
      {
        ...row,
        id: 'b',
        seq: 2,
        receipt: receipt({
          tokens_claimed: { prompt: 3, completion: 4 },
          exit_code: -9,
          cwd: '/{x}',
          agent: '\ud800',
        }),
      },
      { ...row, id: 'c', seq: 3, receipt: 'nothing' },
    ]);
    const rows = await answer({
      surface: 'receipts',
      select: ['id', 'agent', 'prompt_tokens', 'completion_tokens_claimed', 'exit_code', 'duration_ms'],
      where: [{ column: 'id', op: 'ne', value: 'b' }],
    });
    expect(rows).toEqual([
      ['c', null, null, null, null, null],
      ['a', 'é😀"\\\n\uFFFD', 1, null, null, 60_000],
    ]);
    for (const database of databases) {
      const {
        rows: [odd],
      } = await ask(database, {
        surface: 'receipts',
        where: [{ column: 'id', op: 'eq', value: 'b' }],
        select: ['completion_tokens_claimed', 'exit_code'],
      });
      expect(odd).toEqual([4, -9]);
    }
  });

  it('of histories show the attached racks, and nothing without one', async () => {
    const [sqlite] = databases;
    if (!sqlite) throw new Error('SQLite is always there');
    const columns = await sqlite.read('pragma agent.table_info(events)');
    const spare = columns.some(({ name }) => name === 'event_hash');
    for (const rack of ['agent', 'gateway']) {
      await sqlite.empty(`"${rack}".events`);
      await sqlite.insert(`"${rack}".events`, [
        {
          seq: 1,
          event_id: 'e',
          at: at(1),
          received_at: at(2),
          source: 'host',
          kind: 'message',
          content: rack,
          bytes: 9,
          redacted: 0,
          ...(spare ? { event_hash: 'h' } : {}),
        },
      ]);
    }
    const body = { surface: 'transcript', select: ['rack', 'content'] };
    expect((await ask(sqlite, body, { attached: [] })).rows).toEqual([]);
    expect((await ask(sqlite, body, { attached: ['agent'] })).rows).toEqual([['agent', 'agent']]);
    expect((await ask(sqlite, body, { attached: ['gateway', 'agent'] })).rows).toEqual([
      ['gateway', 'gateway'],
      ['agent', 'agent'],
    ]);
    expect(
      (await ask(sqlite, { surface: 'transcript', aggregate: [{ fn: 'count' }] }, { attached: [] })).rows,
    ).toEqual([[0]]);
  });
});

describe('common queries', () => {
  const ordered = surfaces.filter(({ source }) => source !== 'racks');
  it.each(ordered)('goes along an index from its end: $name', async ({ name }) => {
    const [sqlite] = databases;
    const { sql, parameters } = compile(checkQuery({ surface: name }), { kind: 'sqlite', now });
    const plan = (await sqlite?.read(`explain query plan ${sql}`, parameters)) ?? [];
    const steps = plan.map(({ detail }) => String(detail)).join('; ');
    expect(steps).toContain('USING INDEX');
    expect(steps).not.toContain('B-TREE FOR ORDER BY');
  });
});
