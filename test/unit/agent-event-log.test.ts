import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EventLog } from '../../src/agent/event-log.ts';
import { Store, StoreError } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';

interface Event {
  readonly type: string;
  readonly text?: string;
  readonly step?: string;
  readonly event?: Event;
}
const parsed = (lines: readonly string[]) =>
  lines.map((line) => JSON.parse(line) as Event & { seq: number; ts: string });

async function collected(lines: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

describeDatabases('the event log', (url) => {
  let store: Store;
  let log: EventLog;
  const never = new AbortController().signal;
  beforeEach(async () => {
    store = await Store.open({ url: await url(), endpointId: 'here' });
    log = new EventLog(store);
  });
  afterEach(() => store.close());

  const all = async (stream: string, after = -1, signal = never) =>
    parsed(await collected(log.read(stream, { after, signal })));

  it('has stored an event when append resolves, with type, seq and time first', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    await writer.append({ type: 'start' });
    const rows = await store.read((db) => db.selectFrom('events').selectAll().execute());
    expect(rows).toEqual([{ stream: 't1', seq: 0, ts: rows[0]?.ts, event: rows[0]?.event }]);
    expect(rows[0]?.event).toMatch(/^\{"type":"start","seq":0,"ts":"\d{4}-[^"]*Z"\}$/);
  });

  it('merges adjacent text deltas, and writes them before the next event', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    for (const text of ['a', 'b', 'c']) await writer.append({ type: 'delta', text });
    for (const text of ['d', 'e']) await writer.append({ type: 'reasoning', text });
    await writer.append({ type: 'turn' });
    await writer.append({ type: 'delta', text: 'f' });
    await writer.end();
    expect((await all('t1')).map(({ type, text, seq }) => [seq, type, text])).toEqual([
      [0, 'delta', 'abc'],
      [1, 'reasoning', 'de'],
      [2, 'turn', undefined],
      [3, 'delta', 'f'],
    ]);
  });

  it('delivers a text delta to a reader even if no event follows', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    const lines = log.read('t1', { after: -1, signal: never });
    const first = lines.next();
    await writer.append({ type: 'delta', text: 'still going' });
    expect((await first).value).toContain('still going');
    await writer.end();
    expect((await lines.next()).done).toBe(true);
  });

  it('ends only when pending writes are stored', async () => {
    const transaction = store.transaction.bind(store);
    store.transaction = async (work) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      return await transaction(work);
    };
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    await writer.append({ type: 'delta', text: 'late' });
    // The piece is on its way, and nothing waits any more.
    await new Promise((resolve) => setTimeout(resolve, 80));
    const reading = all('t1');
    await writer.end();
    expect((await reading).map(({ text }) => text)).toEqual(['late']);
  });

  it('rejects at the end when text deltas were lost', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    store.transaction = () => Promise.reject(new Error('full'));
    await writer.append({ type: 'delta', text: 'lost' });
    await new Promise((resolve) => setTimeout(resolve, 80));
    await expect(writer.append({ type: 'delta', text: 'next' })).rejects.toThrow('full');
    await expect(writer.end()).resolves.toBeUndefined();
    expect(await all('t1')).toEqual([]);
  });

  it('numbers the events of a step separately, from 0 in each attempt, also with merged deltas', async () => {
    const writer = log.open<Event>('r1', { nextSeq: 5 });
    const inner = (event: Event) => writer.append({ type: 'step_event', step: 'a', event });
    await writer.append({ type: 'step_start', step: 'a' });
    await inner({ type: 'turn' });
    await inner({ type: 'delta', text: 'x' });
    await inner({ type: 'delta', text: 'y' });
    await inner({ type: 'answer' });
    await writer.append({ type: 'step_start', step: 'a' });
    await inner({ type: 'turn' });
    await writer.end();
    const lines = await all('r1');
    expect(lines.map(({ seq }) => seq)).toEqual([5, 6, 7, 8, 9, 10]);
    const loggedEvents = lines.flatMap(({ event }) => (event ? [event as Event & { seq: number }] : []));
    expect(loggedEvents.map(({ seq, type, text }) => [seq, type, text])).toEqual([
      [0, 'turn', undefined],
      [1, 'delta', 'xy'],
      [2, 'answer', undefined],
      [0, 'turn', undefined],
    ]);
  });

  it('writes an event and its related rows together or not at all', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    await writer.append({ type: 'delta', text: 'before' });
    const broken = writer.appendWith({ type: 'answer' }, async (tx) => {
      await store.nextNumber(tx, 'task');
      throw new Error('no receipt');
    });
    await expect(broken).rejects.toThrow('no receipt');
    const number = await writer.appendWith({ type: 'answer' }, (tx) => store.nextNumber(tx, 'task'));
    expect(number).toBe(1);
    await writer.end();
    expect((await all('t1')).map(({ seq, type }) => [seq, type])).toEqual([
      [0, 'delta'],
      [1, 'answer'],
    ]);
  });

  it('leaves no gap when the database retries a transaction', async () => {
    const writer = log.open<Event>('t1', { nextSeq: 0 });
    const real = store.transaction.bind(store);
    store.transaction = async (work) => {
      const given = real(async (tx) => {
        await work(tx);
        throw new Error('given up');
      });
      await given.catch(() => undefined);
      return await real(work);
    };
    await writer.append({ type: 'step_start', step: 'a' });
    const event = { type: 'turn' };
    await Promise.all([1, 2, 3].map(() => writer.append({ type: 'step_event', step: 'a', event })));
    await writer.appendWith({ type: 'answer' }, () => Promise.resolve());
    await writer.end();
    const lines = await all('t1');
    expect(lines.map(({ seq }) => seq)).toEqual([0, 1, 2, 3, 4]);
    expect(lines.map((line) => (line.event as { seq?: number } | undefined)?.seq)).toEqual([
      undefined,
      0,
      1,
      2,
      undefined,
    ]);
  });

  it.each([true, false])(
    'goes on behind what was saved though the connection was lost meanwhile, which it was: %s',
    async (saved) => {
      const writer = log.open<Event>('t1', { nextSeq: 0 });
      await writer.append({ type: 'one' });
      const real = store.transaction.bind(store);
      store.transaction = async (work) => {
        if (saved) await real(work);
        throw new StoreError('storage_unsure', 'lost while it was saving');
      };
      const appends = [writer.append({ type: 'two' }), writer.append({ type: 'three' })];
      const results = await Promise.allSettled(appends);
      expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      store.transaction = real;
      await writer.appendWith({ type: 'end' }, () => Promise.resolve());
      await writer.append({ type: 'more' });
      await writer.end();
      const lines = await all('t1');
      expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
      const types = lines.map(({ type }) => type);
      // Of two concurrent writes, the first may have been sent alone.
      if (!saved) expect(types).toEqual(['one', 'end', 'more']);
      else expect(types.filter((type) => type !== 'three')).toEqual(['one', 'two', 'end', 'more']);
    },
  );

  it('loses no event when the write of another stream fails', async () => {
    const good = log.open<Event>('t1', { nextSeq: 0 });
    await store.transaction((tx) => log.insert(tx, 't2', 0, { type: 'taken' }));
    const bad = log.open<Event>('t2', { nextSeq: 0 });
    const appends = [
      good.append({ type: 'one' }),
      bad.append({ type: 'two' }),
      good.append({ type: 'three' }),
    ];
    const results = await Promise.allSettled(appends);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await good.end();
    expect((await all('t1')).map(({ seq, type }) => [seq, type])).toEqual([
      [0, 'one'],
      [1, 'three'],
    ]);
  });

  it('follows a stream of another writer until it is complete', async () => {
    const other = new EventLog(store);
    const writer = other.open<Event>('t1', { nextSeq: 0 });
    await writer.append({ type: 'start' });
    let over = false;
    const ended = () => Promise.resolve(over);
    const seen: string[] = [];
    const reading = (async () => {
      for await (const line of log.read('t1', { after: -1, signal: never, isComplete: ended }))
        seen.push(line);
    })();
    await writer.append({ type: 'answer' });
    await writer.end();
    over = true;
    await reading;
    expect(parsed(seen).map(({ type }) => type)).toEqual(['start', 'answer']);
  });

  it('ends a reader when its signal is aborted', async () => {
    log.open<Event>('t1', { nextSeq: 0 });
    const leaving = new AbortController();
    const reading = all('t1', -1, leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(reading).rejects.toThrow('gone');
  });

  it('delivers every event once to every reader, from any start and at any speed', async () => {
    const events = fc.array(
      fc.oneof(
        fc.record({ type: fc.constantFrom('delta', 'reasoning'), text: fc.string({ maxLength: 5 }) }),
        fc.record({ type: fc.constantFrom('turn', 'usage') }),
      ),
      { maxLength: 200 },
    );
    let count = 0;
    await fc.assert(
      fc.asyncProperty(events, fc.array(fc.nat(200), { maxLength: 3 }), async (made, froms) => {
        const stream = `t${++count}`;
        const writer = log.open<Event>(stream, { nextSeq: 0 });
        const readers = froms.map((from) => all(stream, from - 1));
        await Promise.all(made.map((event) => writer.append(event)));
        await writer.end();
        const whole = await all(stream);
        expect(whole.map(({ seq }) => seq)).toEqual(whole.map((_, index) => index));
        const joined = (type: string, of: readonly Event[]) =>
          of.map((event) => (event.type === type ? (event.text ?? '') : '')).join('');
        for (const type of ['delta', 'reasoning']) expect(joined(type, whole)).toBe(joined(type, made));
        const plain = (of: readonly Event[]) =>
          of.flatMap(({ type, text }) => (text === undefined ? [type] : []));
        expect(plain(whole)).toEqual(plain(made));
        for (const [index, reader] of readers.entries())
          expect(await reader).toEqual(whole.slice(froms[index]));
      }),
      { numRuns: 30 },
    );
  });
});
