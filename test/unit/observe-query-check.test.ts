import { describe, expect, it } from 'vitest';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { nextCursor } from '../../src/observe/query/cursor.ts';
import { caught } from '../support/observe-answers.ts';

const faults = (body: unknown) =>
  Object.fromEntries(
    caught(() => checkQuery(body)).violations.map(({ path, message }): [string, string] => [path, message]),
  );

describe('a query', () => {
  it('is refused with all violations at once, each with its path and the nearest name', () => {
    const violations = faults({
      surface: 'tasks',
      selekt: ['id'],
      select: ['id', 'stat', 'id', 7],
      where: [
        { column: 'state', op: 'lt', value: 'x' },
        { column: 'turns', op: 'gte', value: '3' },
        { column: 'started_at', op: 'gt', value: 'yesterday' },
        { column: 'agent', op: 'in', value: ['a', 3] },
        { column: 'agent', op: 'is', value: 'a' },
        { colum: 'agent', op: 'eq', value: 'a' },
        { column: 'agent', op: 'eq', value: ['a'] },
        { column: 'agent', op: 'in', value: 'a' },
        { column: 'agent', op: 'is_null', value: 'a' },
      ],
      group_by: ['agnt', { column: 'agent', bucket: 'day' }, { column: 'started_at', bucket: 'week' }],
      aggregate: [
        { fn: 'p95', column: 'agent' },
        { fn: 'sum' },
        { fn: 'count', as: 'Rows; --' },
        { fn: 'max', column: 'duration' },
      ],
      order_by: [{ column: 'agent', direction: 'down' }],
      limit: 5000,
    });
    expect(Object.keys(violations).sort()).toEqual(
      [
        'selekt',
        'select',
        'select[1]',
        'select[2]',
        'select[3]',
        'where[0].op',
        'where[1].value',
        'where[2].value',
        'where[3].value[1]',
        'where[4].op',
        'where[5].column',
        'where[5].colum',
        'where[6].value',
        'where[7].value',
        'where[8].value',
        'group_by[0]',
        'group_by[1].bucket',
        'group_by[2].bucket',
        'aggregate[0].fn',
        'aggregate[1].column',
        'aggregate[2].as',
        'aggregate[3].column',
        'order_by[0].direction',
        'limit',
      ].sort(),
    );
    expect(violations['selekt']).toContain("did you mean 'select'?");
    expect(violations['select[1]']).toContain("did you mean 'state'?");
    expect(violations['where[0].op']).toContain(
      'expected eq, ne, in, not_in, contains, starts_with, is_null',
    );
    expect(violations['where[2].value']).toContain('-15m');
    expect(violations['where[5].colum']).toContain("did you mean 'column'?");
    expect(violations['group_by[0]']).toContain("did you mean 'agent'?");
    expect(violations['aggregate[3].column']).toContain("did you mean 'duration_ms'?");
    expect(violations['limit']).toContain('1000');
  });

  it.each([
    [null, ''],
    [[], ''],
    ['tasks', ''],
    [{}, 'surface'],
    [{ surface: 7 }, 'surface'],
    [{ surface: 'task' }, 'surface'],
    [{ surface: 'tasks', where: {} }, 'where'],
    [{ surface: 'tasks', where: [null] }, 'where[0]'],
    [{ surface: 'tasks', where: [{ column: 'agent', op: 'eq' }] }, 'where[0].value'],
    [{ surface: 'tasks', where: [{ column: 'agent', op: 'eq', value: null }] }, 'where[0].value'],
    [{ surface: 'tasks', where: [{ column: 'agent', op: 'in', value: [] }] }, 'where[0].value'],
    [{ surface: 'tasks', where: [{ column: 'turns', op: 'eq', value: 2 ** 53 }] }, 'where[0].value'],
    [{ surface: 'tasks', where: [{ column: 'turns', op: 'eq', value: 1.5 }] }, 'where[0].value'],
    [{ surface: 'tasks', where: [{ column: 'agent', op: 'eq', value: 'x'.repeat(2001) }] }, 'where[0].value'],
    [
      { surface: 'tasks', where: [{ column: 'started_at', op: 'eq', value: '2026-02-30T00:00:00Z' }] },
      'where[0].value',
    ],
    [
      { surface: 'tasks', where: [{ column: 'started_at', op: 'lt', value: '9999-12-31T23:59:59-10:00' }] },
      'where[0].value',
    ],
    [
      {
        surface: 'tasks',
        where: Array.from({ length: 21 }, () => ({ column: 'agent', op: 'eq', value: 'a' })),
      },
      'where',
    ],
    [{ surface: 'tasks', select: [] }, 'select'],
    [{ surface: 'tasks', order_by: [{ column: 'agent' }, { column: 'agent' }] }, 'order_by[1].column'],
    [{ surface: 'acts', order_by: [{ column: 'details' }] }, 'order_by[0].column'],
    [{ surface: 'transcript', where: [{ column: 'content', op: 'contains', value: 'a' }] }, 'where[0].op'],
    [{ surface: 'transcript', group_by: ['content'] }, 'group_by[0]'],
    [{ surface: 'tasks', aggregate: [{ fn: 'count' }, { fn: 'count' }] }, 'aggregate[1].as'],
    [{ surface: 'tasks', group_by: ['agent'], aggregate: [{ fn: 'count', as: 'agent' }] }, 'aggregate[0].as'],
    [{ surface: 'tasks', group_by: ['agent', 'agent'] }, 'group_by[1]'],
    [{ surface: 'tasks', aggregate: [{ fn: 'count' }], select: ['id'] }, 'select'],
    [{ surface: 'tasks', group_by: ['agent'], order_by: [{ column: 'state' }] }, 'order_by[0].column'],
    [{ surface: 'tasks', limit: 0 }, 'limit'],
    [{ surface: 'tasks', limit: 1.5 }, 'limit'],
    [{ surface: 'tasks', cursor: 'x' }, 'cursor'],
  ])('%j is refused at %j alone', (body, path) => {
    expect(Object.keys(faults(body))).toEqual([path]);
  });

  it('does not blame an order for an aggregate that is refused', () => {
    const body = {
      surface: 'tasks',
      aggregate: [{ fn: 'p95', column: 'agent' }],
      group_by: ['state'],
      order_by: [{ column: 'p95_agent' }],
    };
    expect(Object.keys(faults(body))).toEqual(['aggregate[0].fn']);
  });

  it('reports at most 50 violations', () => {
    const strange = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`x${n}`, n]));
    const { violations, message } = caught(() => checkQuery({ surface: 'tasks', ...strange }));
    expect(violations).toHaveLength(50);
    expect(message.length).toBeLessThan(20_000);
  });

  it('knows the provenance and the unit of what it answers', () => {
    const { columns } = checkQuery({
      surface: 'sessions',
      group_by: ['harness'],
      aggregate: [
        { fn: 'count' },
        { fn: 'sum', column: 'prompt_tokens' },
        { fn: 'sum', column: 'prompt_tokens_claimed', as: 'claimed' },
        { fn: 'p95', column: 'duration_ms' },
        { fn: 'count', column: 'prompt_tokens', as: 'known' },
        { fn: 'max', column: 'ended_at' },
      ],
    });
    expect(columns.map(({ name, type, unit, provenance }) => [name, type, unit, provenance])).toEqual([
      ['harness', 'text', undefined, 'claimed'],
      ['count', 'integer', undefined, 'derived'],
      ['sum_prompt_tokens', 'integer', 'tokens', 'measured'],
      ['claimed', 'integer', 'tokens', 'claimed'],
      ['p95_duration_ms', 'number', 'ms', 'derived'],
      ['known', 'integer', undefined, 'derived'],
      ['max_ended_at', 'time', undefined, 'measured'],
    ]);
  });
});

describe('a cursor', () => {
  const body = { surface: 'tasks', select: ['id'], order_by: [{ column: 'prompt_tokens' }] };
  const row = { c0: 't1', o0: null, o1: '2026-06-15T00:00:00.000Z', o2: 't1' };
  const now = new Date('2026-06-15T12:00:00.000Z');
  const cursor = () => nextCursor(checkQuery(body), row, now);

  it('belongs to its query, whatever the limit', () => {
    const given = cursor();
    expect(checkQuery({ ...body, cursor: given, limit: 7 }).after).toEqual([null, row.o1, 't1']);
    const reordered = { order_by: [{ column: 'prompt_tokens' }], select: ['id'], surface: 'tasks' };
    expect(checkQuery({ ...reordered, cursor: given }).after).toEqual([null, row.o1, 't1']);
    for (const other of [
      { ...body, surface: 'runs' },
      { ...body, select: ['id', 'agent'] },
      { ...body, order_by: [{ column: 'prompt_tokens', direction: 'desc' }] },
      { ...body, where: [{ column: 'agent', op: 'eq', value: 'a' }] },
    ])
      expect(faults({ ...other, cursor: given })['cursor']).toContain('another query');
  });

  it('is refused if it was modified', () => {
    const { query, after, ...rest } = JSON.parse(Buffer.from(cursor() ?? '', 'base64url').toString()) as {
      query: string;
      after: unknown[];
    };
    const made = (changed: unknown[]) =>
      Buffer.from(JSON.stringify({ query, ...rest, after: changed })).toString('base64url');
    const [, at, id] = after;
    for (const changed of [
      [],
      [null, at],
      [null, at, id, id],
      ['x', at, id],
      ['9223372036854775808', at, id],
      [1.5, at, id],
      [null, null, id],
      [null, at, 7],
      [null, at, 'a\0'],
      [null, at, '\uD800'],
      [true, at, id],
    ])
      expect(Object.keys(faults({ ...body, cursor: made(changed) }))).toEqual(['cursor']);
    expect(checkQuery({ ...body, cursor: made(['9223372036854775807', at, id]) }).after).toHaveLength(3);
  });

  it('carries numbers exactly, and is omitted for texts that are too long', () => {
    const numbers = { surface: 'completions', select: ['id'], order_by: [{ column: 'decode_ms' }] };
    const query = checkQuery(numbers);
    for (const value of [0.1, 1e-9, 5e-324, 1.7976931348623157e308, Infinity, Number.NaN, -0.3]) {
      const given = nextCursor(query, { o0: value, o1: '2026-06-15T00:00:00.000Z', o2: 'a', o3: 'b' }, now);
      expect(Number(checkQuery({ ...numbers, cursor: given }).after?.[0])).toBe(value);
    }
    expect(nextCursor(checkQuery(body), { ...row, o2: 'x'.repeat(100_000) }, now)).toBeUndefined();
  });
});
