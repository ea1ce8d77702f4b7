import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ObserveError } from '../../src/observe/errors.ts';
import { isComparable, describeColumns } from '../../src/observe/query/column-operations.ts';
import { getSurface, surfaces } from '../../src/observe/surfaces/index.ts';
import type { Column, Operator, Surface } from '../../src/observe/types.ts';
import { alike, caught } from '../support/observe-answers.ts';
import {
  ask,
  askAll,
  coverageOf,
  type ObservedDatabase,
  postgresDatabase,
  sqliteDatabase,
} from '../support/observe-databases.ts';
import { fill, texts, times } from '../support/observe-rows.ts';
import { everyNth, selectCases } from '../support/tier.ts';

describe('surfaces', () => {
  it('are all there, with unique names', () => {
    expect(surfaces.map(({ name }) => name)).toEqual(
      'sessions tasks runs steps receipts completions spans pending acts parity bench gateway_requests transcript'.split(
        ' ',
      ),
    );
    for (const { columns } of surfaces) {
      const names = columns.map(({ name }) => name);
      expect(new Set(names).size).toBe(names.length);
      for (const name of names) expect(name).toMatch(/^[a-z][a-z0-9_]{1,31}$/);
    }
  });

  it('have a time and a key of required columns that can be compared', () => {
    for (const { columns, time, key } of surfaces) {
      const of = (name: string) => columns.find((column) => column.name === name);
      expect(of(time)).toMatchObject({ type: 'time', required: true });
      for (const name of key) expect(of(name)).toMatchObject({ required: true });
      for (const name of [time, ...key]) expect(isComparable(of(name) as Column)).toBe(true);
    }
  });

  it('show nothing that opens anything, and nothing that was asked or answered', () => {
    const secret =
      /hash|secret|capability|payload|request$|diff|input|output|^prompt$|idempotency|token_hash/;
    for (const { columns } of surfaces)
      for (const { name } of columns)
        if (!name.startsWith('cost_') && !name.endsWith('_tokens')) expect(name).not.toMatch(secret);
  });

  it('tell what may be asked of each column', () => {
    const shown = describeColumns(getSurface('completions'));
    expect(shown.find(({ name }) => name === 'first_token_ms')).toEqual({
      name: 'first_token_ms',
      type: 'number',
      unit: 'ms',
      provenance: 'measured',
      nullable: true,
      description: 'From the request to the first piece of the answer.',
      operators: ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'not_in', 'is_null'],
      aggregates: ['count', 'count_distinct', 'sum', 'avg', 'min', 'max', 'p50', 'p95', 'p99'],
    });
    expect(shown.find(({ name }) => name === 'started_at')?.buckets).toEqual([
      'minute',
      'ten_minutes',
      'hour',
      'day',
      'month',
    ]);
    const long = describeColumns(getSurface('transcript')).find(({ name }) => name === 'content');
    expect(long).toMatchObject({ operators: ['is_null'], aggregates: ['count'] });
  });

  it('are not found under other names; the nearest name is suggested', () => {
    const error = caught(() => getSurface('completion'));
    expect(error).toBeInstanceOf(ObserveError);
    expect(error).toMatchObject({ kind: 'not_found', code: 'unknown_surface' });
    expect(error.message).toContain("(did you mean 'completions'?)");
  });
});

const values: Readonly<Record<string, readonly unknown[]>> = {
  text: [...texts.slice(0, 12), '😀', 'nowhere'],
  time: [times[0], '-2h', '-400d'],
  integer: [0, 3, 4294967297, -1],
  number: [0.1, 1, 1e12],
  flag: [true, false],
};

/** Every condition that a column takes. */
function conditions(column: Column, operators: readonly Operator[]) {
  return operators.flatMap((op): { column: string; op: Operator; value: unknown }[] => {
    if (op === 'is_null') return [true, false].map((value) => ({ column: column.name, op, value }));
    const known = values[column.type] ?? [];
    const given = op === 'in' || op === 'not_in' ? [known] : known;
    return given.map((value) => ({ column: column.name, op, value }));
  });
}

/** Every operator of every column, with some of its values. */
const isSampled = ({ op }: { readonly op: Operator }, index: number): boolean =>
  index % 3 === 0 || ['in', 'not_in', 'is_null'].includes(op);

describe('every column of every surface', () => {
  let databases: [ObservedDatabase, ...ObservedDatabase[]];
  beforeAll(async () => {
    const postgres = await postgresDatabase();
    databases = [await sqliteDatabase(), ...(postgres ? [postgres] : [])];
    await fill(databases, 40, 7);
  });
  afterAll(async () => {
    for (const database of databases) await database.close();
  });

  /** The answer of each database that has the surface; all are equal. */
  const everywhere = async (surface: Surface, query: object) => {
    const of = surface.source === 'racks' ? databases.slice(0, 1) : databases;
    const [first, ...rest] = await Promise.all(
      of.map((database) => ask(database, { surface: surface.name, limit: 1000, ...query })),
    );
    for (const other of rest) alike(other.rows, first?.rows, query);
    return first?.rows ?? [];
  };

  for (const surface of everyNth(surfaces, 2)) {
    const shown = () =>
      describeColumns(surface).map((column, n) => ({ ...column, column: surface.columns[n] as Column }));

    it(`${surface.name}: can be selected, and coverage says how much is known`, async () => {
      const names = surface.columns.map(({ name }) => name);
      const rows = await everywhere(surface, { select: names });
      expect(rows.length).toBeGreaterThan(0);
      for (const { name, nullable } of shown())
        if (!nullable) for (const row of rows) expect(row[names.indexOf(name)]).not.toBeNull();
      const [sqlite, ...others] = await Promise.all(
        (surface.source === 'racks' ? databases.slice(0, 1) : databases).map((database) =>
          coverageOf(database, { surface: surface.name, select: names }),
        ),
      );
      for (const other of others) expect(other).toEqual(sqlite);
      expect(sqlite?.rows).toBe(rows.length);
      for (const [name, count] of Object.entries(sqlite?.with_value ?? {}))
        expect(count).toBe(rows.filter((row) => row[names.indexOf(name)] !== null).length);
    });

    it(`${surface.name}: can be searched by`, async () => {
      const all = (await everywhere(surface, {})).length;
      for (const { column, operators } of shown())
        for (const where of selectCases(conditions(column, operators), isSampled)) {
          const select = [...new Set([...surface.key, column.name])];
          const rows = await everywhere(surface, { select, where: [where] });
          expect(rows.length).toBeLessThanOrEqual(all);
        }
    });

    it(`${surface.name}: can be grouped and aggregated`, async () => {
      for (const { column, aggregates, buckets = [] } of shown()) {
        await everywhere(surface, { aggregate: aggregates.map((fn) => ({ fn, column: column.name })) });
        if (!isComparable(column)) continue;
        for (const bucket of [undefined, ...buckets])
          await everywhere(surface, {
            group_by: [bucket === undefined ? column.name : { column: column.name, bucket }],
            aggregate: [
              { fn: 'count' },
              ...(aggregates.includes('avg') ? [{ fn: 'avg', column: column.name }] : []),
            ],
          });
      }
    });

    it(`${surface.name}: can be ordered by, page by page`, async () => {
      const of = surface.source === 'racks' ? databases.slice(0, 1) : databases;
      for (const { name, column } of shown()) {
        if (!isComparable(column)) continue;
        for (const direction of ['asc', 'desc'] as const) {
          const body = {
            surface: surface.name,
            select: [...new Set([...surface.key, name])],
            order_by: [{ column: name, direction }],
          };
          const whole = await everywhere(surface, body);
          for (const database of of) expect(await askAll(database, body, 17)).toEqual(whole);
        }
      }
    });
  }
});
