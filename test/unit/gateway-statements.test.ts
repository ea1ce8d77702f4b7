import { describe, expect, it } from 'vitest';
import { statementsOf } from '../../src/gateway/store/index.ts';
import type { Connection } from '../../src/store/index.ts';

/** Records its statements; each one reports one changed row. */
function connection() {
  const executed: (readonly [sql: string, ...parameters: unknown[]])[] = [];
  const run = (sql: string, parameters: readonly unknown[]) => {
    executed.push([sql.replaceAll(/\s+/g, ' ').trim(), ...parameters]);
    return { rows: [{ n: executed.length, first: 1n }], numAffectedRows: 1n };
  };
  return { executed, connection: { run } as unknown as Connection };
}

const given = { id: 'text', more: 'integer' } as const;
const update =
  'update t as one set n = one.n + given.more from {given} where one.id = given.id and one.n + given.more > 0';
const rows = [
  { id: 'a\0', more: 2n },
  { id: 'b', more: -1n },
];

describe('a statement for many rows', () => {
  it('runs synchronously, row by row, in SQLite', () => {
    const { executed, connection: to } = connection();
    const done = statementsOf('sqlite').prepare(given, update)(to, rows);
    const text = 'update t as one set n = one.n + ?2 where one.id = ?1 and one.n + ?2 > 0';
    expect(executed).toEqual([
      [text, 'a\uFFFD', 2n],
      [text, 'b', -1n],
    ]);
    expect(done).toEqual({ rows: [expect.anything(), expect.anything()], changed: 2 });
  });

  it('is one statement in PostgreSQL, with all rows in one parameter', async () => {
    const { executed, connection: to } = connection();
    await statementsOf('postgres').prepare(given, update)(to, rows);
    expect(executed).toEqual([
      [
        'update t as one set n = one.n + given.more from json_to_recordset($1::json) as given(id text, more bigint) where one.id = given.id and one.n + given.more > 0',
        '[{"id":"a\uFFFD","more":"2"},{"id":"b","more":"-1"}]',
      ],
    ]);
  });

  it('joins, locks and deletes in the SQL of each database', async () => {
    const texts = [
      'select one.id from t as one, {given} where one.id = given.id order by one.id {lock one}',
      'delete from t as one using {given} where one.id = given.id',
    ];
    for (const [kind, expected] of [
      [
        'sqlite',
        [
          'select one.id from t as one where one.id = ?1 order by one.id',
          'delete from t as one where one.id = ?1',
        ],
      ],
      [
        'postgres',
        [
          'select one.id from t as one, json_to_recordset($1::json) as given(id text) where one.id = given.id order by one.id for update of one',
          'delete from t as one using json_to_recordset($1::json) as given(id text) where one.id = given.id',
        ],
      ],
    ] as const) {
      const { executed, connection: to } = connection();
      for (const text of texts) await statementsOf(kind).prepare({ id: 'text' }, text)(to, [{ id: 'a' }]);
      expect(executed.map(([text]) => text)).toEqual(expected);
    }
  });

  it('does not run when there are no rows', async () => {
    for (const kind of ['sqlite', 'postgres'] as const) {
      const { executed, connection: to } = connection();
      expect(await statementsOf(kind).prepare(given, update)(to, [])).toEqual({ rows: [], changed: 0 });
      const change = statementsOf(kind).prepareChange({ first: { given, text: update } });
      expect(await change(to, { first: [] })).toEqual({ first: 0 });
      expect(executed).toEqual([]);
    }
  });

  it('counts the changed rows of each part of a change', async () => {
    for (const [kind, statements] of [
      ['sqlite', 2],
      ['postgres', 1],
    ] as const) {
      const { executed, connection: to } = connection();
      const change = statementsOf(kind).prepareChange({ first: { given, text: update } });
      expect(await change(to, { first: rows })).toEqual({ first: kind === 'sqlite' ? 2 : 1 });
      expect(executed).toHaveLength(statements);
    }
  });
});
