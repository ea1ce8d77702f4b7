import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import { chartOf, defaultChart } from '../../web/console/views/observe/chart-data.ts';
import { draftOf, queryOf } from '../../web/console/views/observe/query-draft.ts';
import { narrowerQueries } from '../../web/console/views/observe/narrower-queries.ts';
import type { Query, ResultColumn, SurfaceColumn } from '../../web/console/views/observe/types.ts';

const column = (name: string, type: SurfaceColumn['type']): SurfaceColumn => ({
  name,
  type,
  provenance: 'derived',
  nullable: true,
  description: '',
  operators: [],
  aggregates: [],
});
const columns = [
  column('started_at', 'time'),
  column('wire', 'text'),
  column('status', 'integer'),
  column('stream', 'flag'),
];
const again = (query: unknown) => queryOf(draftOf(query), columns);

describe('a query in the form', () => {
  it('survives the conversion to a draft and back', () => {
    const rows: Query = {
      surface: 'completions',
      select: ['wire', 'status'],
      where: [
        { column: 'started_at', op: 'gte', value: '-24h' },
        { column: 'wire', op: 'in', value: ['chat', 'a, b'] },
        { column: 'status', op: 'not_in', value: [400, 503] },
        { column: 'status', op: 'is_null', value: false },
        { column: 'stream', op: 'eq', value: true },
        { column: 'wire', op: 'ne', value: '7' },
      ],
      order_by: [{ column: 'status', direction: 'desc' }],
      limit: 5,
    };
    expect(again(rows)).toEqual(rows);
    const groups: Query = {
      surface: 'completions',
      group_by: [{ column: 'started_at', bucket: 'hour' }, 'wire'],
      aggregate: [
        { fn: 'count', as: 'answers' },
        { fn: 'max', column: 'status' },
      ],
    };
    expect(again(groups)).toEqual(groups);
  });

  it('preserves the values of `in`, whatever they contain', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 5 }), (texts) => {
        const query: Query = { surface: 's', where: [{ column: 'wire', op: 'in', value: texts }] };
        expect(again(query)).toEqual(query);
      }),
    );
  });

  it('accepts any JSON value', () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => void again(value)));
  });

  it('sends text unchanged where a number is expected, so that the host reports it', () => {
    const draft = draftOf({ surface: 's', where: [{ column: 'status', op: 'eq', value: 'many' }] });
    expect(queryOf({ ...draft, limit: 'all' }, columns)).toEqual({
      surface: 's',
      where: [{ column: 'status', op: 'eq', value: 'many' }],
      limit: 'all',
    });
  });
});

describe('narrowing a query', () => {
  const query: Query = {
    surface: 'completions',
    where: [
      { column: 'started_at', op: 'gte', value: '-30d' },
      { column: 'wire', op: 'eq', value: 'chat' },
    ],
    group_by: ['wire'],
    aggregate: [{ fn: 'count' }, { fn: 'p95', column: 'total_ms' }],
    order_by: [{ column: 'p95_total_ms', direction: 'desc' }],
  };

  it('returns queries that the host accepts', () => {
    const ways = narrowerQueries(query, surfaces.find(({ name }) => name === 'completions')?.time ?? '');
    expect(ways.map(({ label: what }) => what)).toEqual([
      'only the last 7 days',
      'only the last 24 hours',
      'only the last hour',
      'without percentiles and distinct counts',
      'fewer rows per page',
    ]);
    for (const way of ways) expect(() => checkQuery(way.query)).not.toThrow();
  });

  it('keeps the other conditions, and offers no longer time range', () => {
    const [first] = narrowerQueries(query, 'started_at');
    expect(first?.query.where).toEqual([
      { column: 'wire', op: 'eq', value: 'chat' },
      { column: 'started_at', op: 'gte', value: '-7d' },
    ]);
    const hour: Query = { surface: 's', where: [{ column: 'at', op: 'gte', value: '-60m' }], limit: 10 };
    expect(narrowerQueries(hour, 'at')).toEqual([]);
  });
});

describe('rows as a chart', () => {
  const time: ResultColumn = { name: 'at', type: 'time', provenance: 'measured' };
  const wire: ResultColumn = { name: 'wire', type: 'text', provenance: 'derived' };
  const ms: ResultColumn = { name: 'p95', type: 'number', unit: 'ms', provenance: 'measured' };
  const day = (n: number) => `2026-01-0${n}T00:00:00.000Z`;

  it('has a line per group, with gaps where a group has no row', () => {
    const chart = chartOf(
      { group_by: [{ column: 'at', bucket: 'day' }, 'wire'] },
      [time, wire, ms],
      [
        [day(2), 'chat', 20],
        [day(2), 'ollama', 5],
        [day(1), 'chat', 10],
        [day(1), null, null],
      ],
      { x: 'at', y: 'p95', draw: 'line' },
    );
    expect(chart?.x).toEqual([day(1), day(2)].map(Date.parse));
    expect(chart?.series.map(({ name, values }) => [name, values])).toEqual([
      ['chat', [10, 20]],
      ['ollama', [null, 5]],
      ['none', [null, null]],
    ]);
    expect(chart).toMatchObject({ xKind: 'time', yLabel: 'p95 (ms)', omitted: 0 });
  });

  it('names rows without a time by their groups', () => {
    expect(defaultChart([wire, ms])).toEqual({ x: '', y: 'p95', draw: 'bars' });
    const chart = chartOf(
      { group_by: ['wire'] },
      [wire, ms],
      [
        ['chat', '12345678901234567890'],
        ['ollama', 1],
      ],
      { x: '', y: 'p95', draw: 'bars' },
    );
    expect(chart?.xNames).toEqual(['chat', 'ollama']);
    expect(chart?.series[0]?.values).toEqual([Number('12345678901234567890'), 1]);
  });

  it('reports how many groups are not drawn', () => {
    const rows = Array.from({ length: 9 }, (_, n) => [day(1), `w${n}`, n]);
    const chart = chartOf({ group_by: ['at', 'wire'] }, [time, wire, ms], rows, {
      x: 'at',
      y: 'p95',
      draw: 'line',
    });
    expect(chart?.series.map(({ name }) => name)).toEqual(['w8', 'w7', 'w6', 'w5', 'w4', 'w3']);
    expect(chart?.omitted).toBe(3);
    expect(defaultChart([time, wire])).toBeUndefined();
  });
});
