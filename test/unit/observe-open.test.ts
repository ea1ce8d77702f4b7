import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, it } from 'vitest';
import { compile } from '../../src/observe/query/compile.ts';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { timeCheckFunction } from '../../src/observe/readers/time-check.ts';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import { Observe } from '../../src/observe/observe.ts';
import type { ObserveEnvelope } from '../../src/observe/types.ts';
import { describeDatabases, freshSqlite } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import { completion, now, observeWorker, observing, wholeHost } from '../support/observe-host.ts';
import { recorders } from '../support/recorders.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});
const makeRecorder = recorders();

/** Others have an index of their own for what they would be filtered by. */
const filteredBy: Readonly<Record<string, string>> = {
  completions: 'outcome',
  gateway_requests: 'outcome',
  acts: 'outcome',
  steps: 'state',
  parity: 'kernel',
};

const column = ({ columns, rows }: ObserveEnvelope, name: string) =>
  rows.map((row) => row[columns.findIndex((one) => one.name === name)]);

describeDatabases('the observe plane', (freshUrl, kind) => {
  it('answers with one envelope that describes the result', async () => {
    const host = await observing(await freshUrl(), undo);
    await wholeHost(host);
    const query = {
      surface: 'completions',
      select: ['id', 'requested_model', 'prompt_tokens', 'first_token_ms', 'stream'],
      where: [{ column: 'started_at', op: 'gte', value: '-1h' }],
      limit: 3,
    };
    const { elapsed_ms, next, ...answer } = await host.observe.query(query, 'operator');
    expect(answer).toEqual({
      contract: 1,
      surface: 'completions',
      query,
      as_of: now.toISOString(),
      columns: [
        { name: 'id', type: 'text', provenance: 'derived' },
        { name: 'requested_model', type: 'text', provenance: 'claimed' },
        { name: 'prompt_tokens', type: 'integer', unit: 'tokens', provenance: 'measured' },
        { name: 'first_token_ms', type: 'number', unit: 'ms', provenance: 'measured' },
        { name: 'stream', type: 'flag', provenance: 'derived' },
      ],
      rows: [
        ['c3', null, 10, null, true],
        ['t1:1', null, 30, 90, true],
        ['c2', null, 10, 50, true],
      ],
      truncated: true,
      coverage: {
        from: '2026-06-15T11:30:00.000Z',
        to: '2026-06-15T11:40:00.000Z',
        gaps: [],
        denominator: { rows: 4, with_value: { requested_model: 0, prompt_tokens: 4, first_token_ms: 3 } },
      },
      redactions: [],
      warnings: [],
    });
    expect(elapsed_ms).toBeGreaterThan(0);
    const last = await host.observe.query({ ...query, cursor: next }, 'operator');
    expect(last).toMatchObject({ rows: [['c1', null, 10, 10, true]], truncated: false });
    expect(last.next).toBeUndefined();
    expect(last.coverage.denominator?.rows).toBe(4);
  });

  it('lists gaps in the time range of the query', async () => {
    const host = await observing(await freshUrl(), undo);
    const gap = (id: string, from: string, to: string, surface = 'completions') => ({
      id,
      endpoint_id: 'here',
      surface,
      from_at: `2026-06-${from}T00:00:00.000Z`,
      to_at: `2026-06-${to}T00:00:00.000Z`,
      rows: 7,
      reason: 'the database was away',
    });
    await host.insert('feed_gaps', [
      gap('1', '01', '02'),
      gap('2', '05', '07'),
      gap('3', '10', '11'),
      gap('4', '06', '06', 'parity'),
    ]);
    const gapsOf = async (...where: unknown[]) => {
      const query = { surface: 'completions', ...(where.length > 0 ? { where } : {}) };
      const { coverage } = await host.observe.query(query, 'operator');
      return coverage.gaps.map(({ from }) => from.slice(8, 10));
    };
    expect(await gapsOf()).toEqual(['10', '05', '01']);
    const at = (op: string, value: string) => ({ column: 'started_at', op, value });
    expect(await gapsOf(at('gte', '2026-06-06T00:00:00Z'))).toEqual(['10', '05']);
    expect(await gapsOf(at('gt', '2026-06-03T00:00:00Z'), at('lt', '2026-06-06T00:00:00Z'))).toEqual(['05']);
    expect(await gapsOf(at('gte', '-5d'))).toEqual(['10']);
    expect(await gapsOf(at('lt', '2026-05-01T00:00:00Z'))).toEqual([]);
    const { coverage } = await host.observe.query({ surface: 'completions' }, 'operator');
    expect(coverage.gaps[1]).toEqual({
      from: '2026-06-05T00:00:00.000Z',
      to: '2026-06-07T00:00:00.000Z',
      rows: 7,
      reason: 'the database was away',
    });
  });

  it('answers for a database that is older than a surface, with a warning', async () => {
    const host = await observing(await freshUrl(), undo);
    await host.insert('acts', [
      {
        seq: 1,
        at: now.toISOString(),
        endpoint_id: 'here',
        verb: 'approve',
        target: 'p1',
        by: 'operator',
        outcome: 'applied',
      },
    ]);
    await host.write('drop table completions');
    await host.write('drop table feed_gaps');
    await host.write('drop table gateway_requests');
    const answer = await host.observe.query(
      { surface: 'completions', select: ['id', 'total_ms'] },
      'operator',
    );
    expect(answer).toMatchObject({
      rows: [],
      truncated: false,
      columns: [{ name: 'id' }, { name: 'total_ms', unit: 'ms' }],
      coverage: { from: null, to: null, denominator: { rows: 0, with_value: { total_ms: 0 } } },
    });
    expect(answer.warnings).toEqual([expect.stringContaining('older than the surface completions')]);
    const gateway = await host.observe.query({ surface: 'gateway_requests' }, 'operator');
    expect(gateway.warnings).toEqual([expect.stringContaining('no gateway uses this database')]);
    expect((await host.observe.query({ surface: 'acts' }, 'operator')).rows).toHaveLength(1);
  });

  it('says how to narrow a slow query, and serves the next query at once', async () => {
    const host = await observing(await freshUrl(), undo, { budgetMs: 25 });
    const names =
      'id, endpoint_id, wire, operation, "by", engine, outcome, started_at, ended_at, stream, total_ms';
    const values =
      "'here', 'chat', 'chat', 'operator', 'resident', 'ok', '2026-06-15T11:00:00.000Z', '2026-06-15T11:00:00.000Z', 1";
    await host.write(
      kind === 'sqlite'
        ? `with recursive n(i) as (values (1) union all select i + 1 from n where i < 300000) insert into completions (${names}) select i, ${values}, i from n`
        : `insert into completions (${names}) select i, ${values}, i from generate_series(1, 300000) i`,
    );
    const heavy = {
      surface: 'completions',
      where: [{ column: 'id', op: 'contains', value: '7' }],
      group_by: ['id', 'wire'],
      aggregate: [{ fn: 'p95', column: 'total_ms' }],
    };
    const light = { surface: 'completions', select: ['id'], limit: 2 };
    // Connecting counts against the budget, which only a fast machine keeps: the heavy query finds a connection.
    await again(() => host.observe.query(light, 'operator'));
    const refusal = (await host.observe.query(heavy, 'operator').catch((error: unknown) => error)) as Error;
    expect(refusal).toMatchObject({ kind: 'over_budget', code: 'query_over_budget' });
    expect(refusal.message).toMatch(
      /^The query took more than 25 ms: .*searches.*p95_total_ms must hold every value.*groups rows by id, wire/,
    );
    expect(refusal.message).toContain('"column": "started_at", "op": "gte"');
    expect(refusal.message).toMatch(/leave out p95_total_ms; or group by fewer columns\.$/);
    // The remaining time may be too short to count the denominator; a warning then says so.
    const { rows, coverage, warnings } = await again(() => host.observe.query(light, 'operator'));
    expect(rows).toHaveLength(2);
    if (coverage.denominator === null) expect(warnings.join()).toContain('no time left to count');
    else expect(coverage.denominator.rows).toBe(300_000);
  });

  it('refuses invalid queries with all violations', async () => {
    const { observe } = await observing(await freshUrl(), undo);
    await expect(
      observe.query(
        { surface: 'tasks', select: ['idd'], where: [{ column: 'agent', op: 'like', value: 1 }] },
        'operator',
      ),
    ).rejects.toMatchObject({
      kind: 'invalid',
      violations: [
        expect.objectContaining({ path: 'where[0].op' }),
        expect.objectContaining({ path: 'select[0]' }),
      ],
    });
    await expect(observe.ask('nothing', {}, 'operator')).rejects.toMatchObject({ kind: 'not_found' });
    expect(() => observe.schema('task')).toThrow("did you mean 'tasks'?");
  });

  it('reads racks as far as granted, and records the read in the review', async () => {
    const { recorder } = await makeRecorder(`${kind}-racks`);
    const host = await observing(await freshUrl(), undo, { transcripts: recorder.transcripts });
    const readTranscript = (by = 'bearer') =>
      host.observe.ask('said_about', { parameters: { subject: 't1' } }, by);
    const nothing = await readTranscript();
    expect(nothing).toMatchObject({ rows: [], redactions: expect.arrayContaining([]) as unknown });
    expect(nothing.redactions).toHaveLength(5);

    const write = async (rack: 'agent' | 'external', texts: readonly string[]) => {
      await recorder.change(rack, { armed: true, policy: { content: 'full' } }, 'operator');
      const expiresAt = new Date(Date.now() + 3_600_000);
      await recorder.grant({ rack, verbs: ['read', 'write'], expiresAt, to: 'bearer' }, 'operator');
      const { token } = await recorder.mintToken({ rack }, 'operator');
      await recorder.ingest(
        token,
        texts.map((content, n) => ({
          id: `${rack}${n}`,
          at: `2026-06-15T11:0${n}:00.000Z`,
          kind: 'message',
          subject: 't1',
          role: 'user',
          content,
        })),
        'bearer',
      );
    };
    await write('agent', [
      'good morning',
      'my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD',
      'bye',
    ]);
    await write('external', ['from elsewhere']);
    const before = (await recorder.review({ limit: 100 })).entries.filter(({ act }) => act === 'read');
    const answer = await readTranscript();
    expect(column(answer, 'rack')).toEqual(['agent', 'external', 'agent', 'agent']);
    expect(column(answer, 'content')).toEqual([
      'good morning',
      'from elsewhere',
      expect.stringContaining('[redacted]'),
      'bye',
    ]);
    expect(JSON.stringify(answer)).not.toContain('abcdefghijklmnopqrstuvwxyz');
    expect(answer.redactions).toContainEqual({
      what: 'passages in the rack agent',
      reason: expect.stringContaining('policy') as string,
      count: 1,
    });
    expect(answer.redactions.map(({ what }) => what)).toEqual(
      expect.arrayContaining(['the rack completions', 'the rack workflows', 'the rack gateway']),
    );
    expect(answer.redactions).toHaveLength(4);
    expect(answer.coverage).toMatchObject({
      from: '2026-06-15T11:00:00.000Z',
      to: '2026-06-15T11:02:00.000Z',
      denominator: { rows: 4, with_value: { content: 4 } },
    });
    const reads = (await recorder.review({ limit: 100 })).entries.filter(({ act }) => act === 'read');
    expect(reads.length - before.length).toBe(2);
    expect(reads.at(-1)).toMatchObject({ details: { rows: 4 } });

    // No other principal has the grant.
    expect((await readTranscript('peer:laptop')).rows).toEqual([]);
    // What is purged is gone for the next query, though the thread has read it.
    await recorder.purge('agent', 'operator');
    const after = await readTranscript();
    expect(column(after, 'content')).toEqual(['from elsewhere']);
  });
});

describe('the observe plane', () => {
  it('lists its surfaces and questions, and the schema of each', async () => {
    const observe = await Observe.open({ database: freshSqlite(), worker: observeWorker });
    undo.push(() => observe.close());
    const { contract, surfaces: listed, questions } = observe.surfaces();
    expect(contract).toBe(1);
    expect(listed.map(({ name }) => name)).toEqual([
      'sessions',
      'tasks',
      'runs',
      'steps',
      'receipts',
      'completions',
      'spans',
      'pending',
      'acts',
      'parity',
      'bench',
      'gateway_requests',
      'transcript',
    ]);
    expect(questions.length).toBeGreaterThanOrEqual(12);
    for (const { name, columns, time } of listed) {
      const schema = observe.schema(name);
      expect(schema.columns).toHaveLength(columns);
      expect(schema.time).toBe(time);
      expect(schema.columns.every(({ operators }) => operators.length > 0)).toBe(true);
    }
  });

  it('says which database it needs', async () => {
    await expect(Observe.open({ database: 'mysql://x', worker: observeWorker })).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('sqlite:PATH') as string,
    });
    await expect(
      Observe.open({ database: 'postgres://u:hidden@h:port/d', worker: observeWorker }),
    ).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.not.stringContaining('hidden') as string,
    });
    const observe = await Observe.open({
      database: `sqlite:${join(freshDataDir(), 'none.db')}`,
      worker: observeWorker,
    });
    undo.push(() => observe.close());
    await expect(observe.query({ surface: 'tasks' }, 'operator')).rejects.toMatchObject({
      kind: 'unavailable',
      message: expect.stringContaining('there is no database at') as string,
    });
    expect(await observe.query({ surface: 'transcript' }, 'operator')).toMatchObject({
      rows: [],
      warnings: [expect.stringContaining('no recorder')],
    });
  });

  it.each(
    surfaces.filter(({ name, source }) => source !== 'racks' && name !== 'sessions').map(({ name }) => name),
  )(
    'begins with the newest rows of %s by an index, and reads no more of them than it shows',
    async (surface) => {
      const url = freshSqlite();
      await observing(url, undo);
      const db = new DatabaseSync(url.replace('sqlite:', ''), { readOnly: true });
      undo.push(() => db.close());
      db.function(timeCheckFunction, () => 1);
      for (const where of [undefined, [{ column: filteredBy[surface], op: 'eq', value: 'failed' }]]) {
        if (where?.[0]?.column === undefined && where) continue;
        const query = checkQuery({ surface, ...(where ? { where } : {}) });
        const { sql, parameters } = compile(query, { kind: 'sqlite', now });
        const steps = db.prepare(`explain query plan ${sql}`).all(...parameters);
        const planSteps = steps.map(({ detail }) => String(detail));
        expect(planSteps.filter((step) => step.endsWith('TEMP B-TREE FOR ORDER BY'))).toEqual([]);
        expect(planSteps[0]).toContain('USING INDEX');
      }
    },
  );

  it('gives every query its own time, however many come at once', async () => {
    const host = await observing(freshSqlite(), undo);
    await host.insert('completions', [completion('c1')]);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => host.observe.query({ surface: 'completions' }, 'operator')),
    );
    for (const { rows, warnings } of answers) {
      expect(rows).toHaveLength(1);
      expect(warnings).toEqual([]);
    }
  });
});

/** So little time may not do on a machine with other work. */
async function again<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === 600) throw error;
    }
  }
}
