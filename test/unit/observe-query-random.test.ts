import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ObserveError } from '../../src/observe/errors.ts';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { compile } from '../../src/observe/query/compile.ts';
import { compileCoverage } from '../../src/observe/query/coverage.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import { racks } from '../../src/tracing/index.ts';
import { alike } from '../support/observe-answers.ts';
import {
  ask,
  askAll,
  coverageOf,
  now,
  type ObservedDatabase,
  postgresDatabase,
  sqliteDatabase,
} from '../support/observe-databases.ts';
import { attacked, hostile, validQueries, withoutValues } from '../support/observe-queries.ts';
import { fill, observedTables } from '../support/observe-rows.ts';
import { rounds } from '../support/tier.ts';

const kinds = ['sqlite', 'postgres'] as const;
const statements = (query: unknown, kind: (typeof kinds)[number]): string[] => {
  const read = checkQuery(query);
  return [compile, compileCoverage].map(
    (made) => made(read, { kind, now, racks: racks.map((rack) => ({ rack })) }).sql,
  );
};

describe('input of a caller', () => {
  it('is never part of a statement', () => {
    fc.assert(
      fc.property(validQueries(), fc.constantFrom(...kinds), (query, kind) => {
        expect(statements(query, kind)).toEqual(statements(withoutValues(query), kind));
      }),
      { numRuns: rounds(3000, 1000) },
    );
  });

  it('is never part of a statement when it comes in a cursor', () => {
    const body = { surface: 'tasks', select: ['id'], order_by: [{ column: 'agent' }] };
    const { digest } = checkQuery(body);
    const sql = (agent: string, id: string, kind: (typeof kinds)[number]) => {
      const after = [agent, '2026-06-15T00:00:00.000Z', id];
      const cursor = Buffer.from(JSON.stringify({ query: digest, now, after })).toString('base64url');
      return compile(checkQuery({ ...body, cursor }), { kind, now }).sql;
    };
    fc.assert(
      fc.property(hostile, hostile, fc.constantFrom(...kinds), (agent, id, kind) => {
        const kept = (text: string) => text.replaceAll('\0', '').toWellFormed();
        expect(sql(kept(agent), kept(id), kind)).toBe(sql('a', 'b', kind));
      }),
    );
  });
});

describe('queries of all kinds', () => {
  let databases: [ObservedDatabase, ...ObservedDatabase[]];
  beforeAll(async () => {
    const postgres = await postgresDatabase();
    databases = [await sqliteDatabase(), ...(postgres ? [postgres] : [])];
    await fill(databases, 50, 11);
  });
  afterAll(async () => {
    for (const database of databases) await database.close();
  });
  const inAll = surfaces.filter(({ source }) => source !== 'racks');

  it('have the same results in both databases, in one page and in many', async () => {
    await fc.assert(
      fc.asyncProperty(validQueries(inAll), async (query) => {
        const [whole, ...others] = await Promise.all(
          databases.map((database) => ask(database, { ...query, limit: 1000 })),
        );
        for (const other of others) alike(other.rows, whole?.rows, query);
        const [coverage, ...rest] = await Promise.all(
          databases.map((database) => coverageOf(database, query)),
        );
        for (const other of rest) expect(other).toEqual(coverage);
        for (const database of databases) alike(await askAll(database, query, 23), whole?.rows, query);
      }),
      { numRuns: rounds(250, 83) },
    );
  });

  it('of histories come in pages too', async () => {
    const [sqlite] = databases;
    const histories = surfaces.filter(({ source }) => source === 'racks');
    await fc.assert(
      fc.asyncProperty(validQueries(histories), async (query) => {
        const { rows } = await ask(sqlite, { ...query, limit: 1000 });
        alike(await askAll(sqlite, query, 71), rows, query);
      }),
      { numRuns: rounds(60, 20) },
    );
  });

  it('are refused or answered, whatever they contain, and change nothing', async () => {
    const counts = async () => {
      const all: unknown[][] = [];
      for (const database of databases)
        for (const table of observedTables) {
          const [row] = await database.read(`select count(*) as n from ${table}`);
          all.push([database.kind, table, Number(row?.['n'])]);
        }
      return all;
    };
    const before = await counts();
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(attacked, async (body) => {
        try {
          checkQuery(body);
        } catch (error) {
          expect(error).toBeInstanceOf(ObserveError);
          expect((error as ObserveError).kind).toBe('invalid');
          expect((error as ObserveError).violations.length).toBeGreaterThan(0);
          return;
        }
        answered += 1;
        const { surface } = body as { surface: string };
        for (const database of surface === 'transcript' ? databases.slice(0, 1) : databases)
          await ask(database, body);
      }),
      { numRuns: rounds(1500, 500) },
    );
    expect(answered).toBeGreaterThan(50);
    expect(await counts()).toEqual(before);
  });
});
