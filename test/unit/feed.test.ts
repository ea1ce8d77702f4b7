import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ObserveFeed } from '../../src/feed/index.ts';
import { Store, type Tx } from '../../src/store/index.ts';
import { noopTracer, Tracer } from '../../src/tracing/index.ts';
import { describeDatabases } from '../support/databases.ts';

const completion = (id: string) => {
  const facts = { wire: 'chat', operation: 'chat', by: 'local', stream: false } as const;
  const work = noopTracer.startSpan('completion', id, facts);
  work.end({ outcome: 'ok', status: 200 });
  return work;
};

describeDatabases('the feed', (url) => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).toReversed()) await close();
  });
  const opened = async () => {
    const store = await Store.open({ url: await url(), endpointId: 'here' });
    open.push(() => store.close());
    const faults: unknown[] = [];
    /** What becomes of transactions, where they fail. */
    const state: { broken?: Error; slow?: Promise<void> } = {};
    const transactions: number[] = [];
    const feed = new ObserveFeed({
      store: {
        endpointId: store.endpointId,
        async transaction<T>(work: (tx: Tx) => Promise<T>) {
          transactions.push(performance.now());
          await state.slow;
          if (state.broken) throw state.broken;
          return await store.transaction(work);
        },
      },
      onFault: (_, error) => faults.push(error),
    });
    open.push(() => feed.close());
    const watch = new Tracer([feed]);
    const rows = () =>
      store.read(async (db) => await db.selectFrom('completions').selectAll().orderBy('id').execute());
    const gaps = () => store.read(async (db) => await db.selectFrom('feed_gaps').selectAll().execute());
    const count = () =>
      store.read(async (db) => {
        const { n } = await db
          .selectFrom('completions')
          .select(({ fn }) => fn.countAll<number>().as('n'))
          .executeTakeFirstOrThrow();
        return n;
      });
    return { store, feed, watch, faults, state, transactions, rows, gaps, count };
  };

  it('has a row of a completion, with all known values', async () => {
    const { feed, watch, rows } = await opened();
    const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
    const work = watch.startSpan(
      'completion',
      'req_1',
      { wire: 'messages', operation: 'chat', by: 'peer:ann', stream: true },
      { traceparent: `00-${trace}-00f067aa0ba902b7-01`, now: new Date('2026-01-02T03:04:05.678Z') },
    );
    Object.assign(work.attributes, {
      requestedModel: 'asked',
      model: 'given',
      answers: 2,
      promptTokens: 10,
      cachedTokens: 4,
      completionTokens: 7,
      firstTokenMs: 12.34567,
      queuedMs: 0,
      prefillMs: 3.5,
      decodeMs: 8.25,
      finish: 'tool_calls',
    });
    work.end({ outcome: 'ok', status: 200 });
    await feed.flush();
    const [row] = await rows();
    expect(row).toEqual({
      id: 'req_1',
      endpoint_id: 'here',
      wire: 'messages',
      operation: 'chat',
      by: 'peer:ann',
      engine: 'resident',
      stream: 1,
      requested_model: 'asked',
      model: 'given',
      answers: 2,
      outcome: 'ok',
      status: 200,
      code: null,
      finish: 'tool_calls',
      started_at: '2026-01-02T03:04:05.678Z',
      ended_at: expect.stringMatching(/^2026-01-02T03:04:05\.\d{3}Z$/),
      prompt_tokens: 10,
      cached_tokens: 4,
      completion_tokens: 7,
      first_token_ms: 12.346,
      queued_ms: 0,
      prefill_ms: 3.5,
      decode_ms: 8.25,
      total_ms: expect.any(Number),
      subject: null,
      agent: null,
      trace_id: trace,
    });
  });

  it('stores null for unknown values, and cuts long texts of clients', async () => {
    const { feed, watch, rows } = await opened();
    const work = watch.startSpan('completion', 'r', {
      wire: 'chat',
      operation: 'chat',
      by: 'local',
      stream: false,
      requestedModel: `${'x'.repeat(199)}\u{1f600}\0`,
    });
    work.attributes.promptTokens = Number.NaN;
    work.attributes.queuedMs = Number.POSITIVE_INFINITY;
    work.end({ outcome: 'refused', status: 404, code: 'model_not_found' });
    await feed.flush();
    expect((await rows())[0]).toMatchObject({
      requested_model: `${'x'.repeat(199)}\ufffd`,
      outcome: 'refused',
      status: 404,
      code: 'model_not_found',
      model: null,
      answers: null,
      finish: null,
      prompt_tokens: null,
      completion_tokens: null,
      first_token_ms: null,
      queued_ms: null,
      trace_id: null,
    });
  });

  it("has rows of agents' turns with their task or run, and of no other spans", async () => {
    const { feed, watch, rows } = await opened();
    const route = { engine: 'gateway', model: 'big' } as const;
    const task = watch.startSpan('task', 't1', { agent: 'ann', ...route });
    const run = watch.startSpan('run', 'r1', { workflow: 'w' });
    const step = watch.startSpan('step', 'r1:s', { workflow: 'w', step: 's' }, { parent: run });
    const facts = { agent: 'ann', promptTokens: 5, completionTokens: 2, finish: 'stop', ...route };
    const turns = [
      watch.startSpan('turn', 't1:1', facts, { parent: task }),
      watch.startSpan('turn', 'r1:s:1', facts, { parent: step }),
    ];
    const tool = { tool: 'look', agent: 'ann', callId: 'c', toolKind: 'read' } as const;
    const call = watch.startSpan('tool', 't1:c', tool, { parent: task });
    for (const work of [...turns, call, step, run, task]) work.end({ outcome: 'ok' });
    await feed.flush();
    const shared = {
      wire: 'agent',
      operation: 'chat',
      by: 'agent:ann',
      agent: 'ann',
      model: 'big',
      status: null,
    };
    expect(await rows()).toEqual([
      expect.objectContaining({
        ...shared,
        id: 'r1:s:1',
        subject: 'r1',
        prompt_tokens: 5,
        completion_tokens: 2,
      }),
      expect.objectContaining({ ...shared, id: 't1:1', subject: 't1', finish: 'stop' }),
    ]);
  });

  it('writes in batches, and a repeated row once', async () => {
    const { feed, transactions, count } = await opened();
    for (let n = 0; n < 450; n++) feed.onEnd(completion(`r${n}`));
    for (let n = 0; n < 10; n++) feed.onEnd(completion(`r${n}`));
    await feed.flush();
    expect(transactions).toHaveLength(3);
    expect(await count()).toBe(450);
    await feed.flush();
    expect(transactions).toHaveLength(3);
  });

  it('writes waiting rows when it is closed, and accepts no more', async () => {
    const { feed, count, faults } = await opened();
    feed.onEnd(completion('a'));
    await feed.close();
    feed.onEnd(completion('b'));
    await feed.flush();
    expect(await count()).toBe(1);
    expect(faults).toEqual([]);
  });

  it('keeps the newest 10,000 rows while the database fails, and records dropped rows as gaps', async () => {
    const { feed, state, faults, rows, gaps, count } = await opened();
    state.broken = new Error('away');
    const works = Array.from({ length: 10_050 }, (_, n) => completion(`r${String(n).padStart(5, '0')}`));
    for (const [n, work] of works.entries()) {
      feed.onEnd(work);
      if (n % 5000 === 0) await feed.flush();
    }
    await feed.flush();
    expect(faults).toEqual([state.broken]);
    expect(await count()).toBe(0);
    delete state.broken;
    await feed.flush();
    const ids = (await rows()).map(({ id }) => id);
    expect(ids).toHaveLength(10_000);
    expect(ids[0]).toBe('r00050');
    const dropped = works.slice(0, 50).map(({ startedAt }) => startedAt.toISOString());
    expect(await gaps()).toEqual([
      {
        id: expect.any(String),
        endpoint_id: 'here',
        surface: 'completions',
        from_at: dropped[0],
        to_at: dropped.at(-1),
        rows: 50,
        reason: 'database_failed',
      },
    ]);
    // The next failure is reported again.
    state.broken = new Error('away again');
    feed.onEnd(completion('last'));
    await feed.flush();
    expect(faults).toHaveLength(2);
    delete state.broken;
    await feed.flush();
    expect(await gaps()).toHaveLength(1);
    expect(await count()).toBe(10_001);
  });

  it('drops the oldest rows when rows arrive faster than they can be written', async () => {
    const { feed, state, transactions, rows, gaps } = await opened();
    const slow = Promise.withResolvers<void>();
    state.slow = slow.promise;
    for (let n = 0; n < 200; n++) feed.onEnd(completion(`a${n}`));
    const flushed = feed.flush();
    await expect.poll(() => transactions).toHaveLength(1);
    for (let n = 0; n < 10_007; n++) feed.onEnd(completion(`b${String(n).padStart(5, '0')}`));
    slow.resolve();
    await flushed;
    expect(await gaps()).toMatchObject([{ surface: 'completions', rows: 7, reason: 'overload' }]);
    const ids = (await rows()).map(({ id }) => id);
    expect(ids).toHaveLength(10_200);
    expect(ids[200]).toBe('b00007');
  });

  it('reports lost rows when the database still fails at the end', async () => {
    const { feed, state, faults } = await opened();
    state.broken = new Error('away');
    feed.onEnd(completion('a'));
    await feed.close();
    expect(faults.map(String)).toEqual(['Error: away', expect.stringContaining('1 rows')]);
    delete state.broken;
  });
});

describe('when the feed writes', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
  afterEach(() => void vi.useRealTimers());

  /** Transactions that take no time, and come to what `outcome` says. */
  const timed = () => {
    const state: { broken?: Error } = {};
    let written = 0;
    const feed = new ObserveFeed({
      store: {
        endpointId: 'here',
        transaction: () => {
          written++;
          return state.broken ? Promise.reject(state.broken) : Promise.resolve(undefined as never);
        },
      },
      onFault: () => undefined,
    });
    let id = 0;
    const add = (rows: number) => {
      for (let n = 0; n < rows; n++) feed.onEnd(completion(`r${id++}`));
    };
    const after = async (ms: number) => {
      await vi.advanceTimersByTimeAsync(ms);
      return written;
    };
    return { feed, state, add, after };
  };

  it('a few rows wait for a second, full batches do not', async () => {
    const { add, after } = timed();
    add(1);
    expect(await after(500)).toBe(0);
    add(1);
    expect(await after(499)).toBe(0);
    expect(await after(1)).toBe(1);
    expect(await after(5000)).toBe(1);
    add(450);
    expect(await after(0)).toBe(3);
    expect(await after(999)).toBe(3);
    expect(await after(1)).toBe(4);
    expect(await after(60_000)).toBe(4);
  });

  it('retries with increasing delays while the database fails, even with full batches', async () => {
    const { state, add, after } = timed();
    state.broken = new Error('away');
    add(500);
    expect(await after(0)).toBe(1);
    add(500);
    expect(await after(1999)).toBe(1);
    expect(await after(1)).toBe(2);
    expect(await after(4000)).toBe(3);
    expect(await after(600_000)).toBeLessThan(30);
    const tries = await after(0);
    delete state.broken;
    expect(await after(30_000)).toBe(tries + 5);
  });
});
