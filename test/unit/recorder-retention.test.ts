import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, describe, expect, it } from 'vitest';
import { History } from '../../src/recorder/histories/history.ts';
import { toStoredEvent } from '../../src/recorder/histories/stored-event.ts';
import { sweep } from '../../src/recorder/histories/sweep.ts';
import { Redactor } from '../../src/recorder/redaction/redactor.ts';
import type { Retention } from '../../src/recorder/types.ts';
import { randomFrom } from '../support/kills/process.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { anEvent, armed, eventsOf, filesWith } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';
import { everyNth } from '../support/tier.ts';

const open = recorders();
const folder = mkdtempSync(join(tmpdir(), 'lathe-retention-'));
afterAll(() => rmSync(folder, { recursive: true }));

const day = 86_400_000;
/** Seeds of histories in which copies remain unless they are removed. */
const seeds = everyNth([1, 2, 4, 5], 4);
const redactor = new Redactor([], []);
const endless: Retention = { days: 3650, bytes: 2 ** 36, events: 1e8 };
const stored = (id: string, content: string) =>
  toStoredEvent(anEvent(id, { content }), { content: 'full', source: 'host', redactor, now: '' });

/** What stands between angles in any file of a folder. */
const marksIn = (path: string) =>
  new Set(
    readdirSync(path).flatMap((name) => readFileSync(join(path, name), 'latin1').match(/<\d+!>/g) ?? []),
  );

describe('data deleted by a sweep is in no byte of the files', () => {
  const now = '2030-01-01T00:00:00.000Z';
  it.each([
    ['small files, which are rewritten', Infinity],
    ['large files, of which the edge is', 0],
  ])('%s', (_, largestRewritten) => {
    for (const seed of seeds) {
      const random = randomFrom(seed);
      const part = () => random(1e6) / 1e6;
      const path = mkdtempSync(join(folder, 'bytes-'));
      const history = History.open(join(path, 'agent.db'));
      // No process is killed here.
      history.run((db) => db.exec('pragma synchronous = off'));
      const there: string[] = [];
      const gone: string[] = [];
      for (let round = 0, next = 0; round < 60; round++) {
        const added = Array.from({ length: random(300) }, () => {
          const mark = `<${next++}!>`;
          there.push(mark);
          const length = part() < 0.2 ? random(9000) : random(300);
          return stored(mark, mark + 'text'.repeat(length / 4) + mark);
        });
        history.add(added, now);
        const isSmallRemoval = part() < 0.5;
        const removed = isSmallRemoval ? random(20) : Math.floor(there.length * part() * part() * 1.5);
        gone.push(...there.splice(0, removed));
        sweep(history, { ...endless, events: there.length }, now, largestRewritten);
        const found = marksIn(path);
        expect(
          gone.filter((mark) => found.has(mark)),
          `seed ${seed}, round ${round}`,
        ).toEqual([]);
        expect(there.filter((mark) => !found.has(mark))).toEqual([]);
      }
      const rows = history.run((db) => db.prepare('select event_id from events order by seq').all());
      expect(rows.map((row) => row['event_id'])).toEqual(there);
      expect(history.totals().events).toBe(there.length);
      const check = history.run((db) => db.prepare('pragma integrity_check').get());
      expect(check).toEqual({ integrity_check: 'ok' });
      history.close();
      rmSync(path, { recursive: true });
    }
  });

  it('and the space is freed', () => {
    const path = mkdtempSync(join(folder, 'room-'));
    const history = History.open(join(path, 'agent.db'));
    for (const largestRewritten of [0, Infinity]) {
      const ids = Array.from({ length: 400 }, (_, index) =>
        stored(`${largestRewritten}${index}`, 'x'.repeat(10_000)),
      );
      history.add(ids, '2030-01-01T00:00:00.000Z');
      sweep(history, { ...endless, events: 5 }, '2030-01-01T00:00:00.000Z', largestRewritten);
      const pages = history.run((db) => db.prepare('pragma page_count').get())?.['page_count'];
      expect(Number(pages)).toBeLessThan(40);
    }
    history.close();
  });

  it('also if the sweep was interrupted after the deletion', () => {
    const path = mkdtempSync(join(folder, 'cut-'));
    const history = History.open(join(path, 'agent.db'));
    history.add([stored('a', '<first!>'), stored('b', 'second')], '2030-01-01T00:00:00.000Z');
    const reader = new DatabaseSync(join(path, 'agent.db'), { readOnly: true });
    reader.exec('begin');
    reader.prepare('select count(*) from events').get();
    // An open reader prevents the truncation of the log.
    expect(() => sweep(history, { ...endless, events: 1 }, '2030-01-01T00:00:00.000Z')).toThrow(
      /cannot truncate the WAL/,
    );
    expect(filesWith(path, '<first!>')).not.toEqual([]);
    reader.exec('commit');
    reader.close();
    expect(sweep(history, { ...endless, events: 1 }, '2030-01-01T00:00:00.000Z')).toEqual({
      events: 0,
      bytes: 0,
    });
    expect(filesWith(path, '<first!>')).toEqual([]);
    history.close();
  });
});

describe('bounds', () => {
  it('age counts from the time of receipt, and the oldest events are deleted first', async () => {
    const clock = new ManualClock();
    const { recorder, folder: files } = await open('age', { now: clock.now });
    const token = await armed(
      recorder,
      'agent',
      { content: 'full', retention: { days: 2 } },
      clock.now().getTime(),
    );
    const send = (id: string) =>
      recorder.ingest(token, [anEvent(id, { at: '1990-01-01T00:00:00Z', content: `<${id}!>` })], 'bearer');
    await send('a');
    clock.pass(day / 2);
    await send('b');
    await recorder.sweep();
    expect((await recorder.rack('agent')).events).toBe(2);
    clock.pass(1.5 * day);
    await recorder.sweep();
    expect((await recorder.rack('agent')).events).toBe(2);
    clock.pass(1);
    await recorder.sweep();
    expect((await eventsOf(recorder, 'agent')).map((row) => row['event_id'])).toEqual(['b']);
    expect(filesWith(files, '<a!>')).toEqual([]);
    const { entries } = await recorder.review({ limit: 100 });
    expect(entries.at(-1)).toMatchObject({
      act: 'expired',
      by: 'host',
      rack: 'agent',
      details: { events: 1 },
    });
    // Events of a disarmed rack expire, too.
    await recorder.change('agent', { armed: false }, 'bearer');
    clock.pass(day);
    await recorder.sweep();
    expect(await recorder.rack('agent')).toMatchObject({ events: 0, bytes: 0, oldest: null, newest: null });
  });

  it('a clock that jumps forward and back does not prolong retention', async () => {
    const clock = new ManualClock();
    const { recorder } = await open('jumps', { now: clock.now });
    const token = await armed(
      recorder,
      'agent',
      { content: 'full', retention: { days: 2 } },
      clock.now().getTime(),
    );
    await recorder.ingest(token, [anEvent('a')], 'bearer');
    clock.jump(1000 * day);
    await recorder.ingest(token, [anEvent('b')], 'bearer');
    clock.jump(-1000 * day);
    await recorder.ingest(token, [anEvent('c')], 'bearer');
    const rows = await eventsOf(recorder, 'agent');
    expect(rows.map((row) => row['event_id'])).toEqual(['a', 'b', 'c']);
    expect(rows.map((row) => row['received_at'])).toEqual(Array(3).fill(clock.now().toISOString()));
    clock.pass(2 * day + 1);
    await recorder.sweep();
    expect((await recorder.rack('agent')).events).toBe(0);
  });

  it('tighter limits apply at once; bytes are those of the texts', async () => {
    const { recorder, folder: files } = await open('tighter');
    const token = await armed(recorder, 'agent');
    const batch = Array.from({ length: 10 }, (_, index) =>
      anEvent(`e${index}`, { content: `<${index}!>${'x'.repeat(997)}` }),
    );
    await recorder.ingest(token, batch, 'bearer');
    const { bytes } = await recorder.rack('agent');
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(12_000);
    const fewer = await recorder.change('agent', { policy: { retention: { events: 6 } } }, 'bearer');
    expect(fewer.events).toBe(6);
    const smaller = await recorder.change('agent', { policy: { retention: { bytes: 3000 } } }, 'bearer');
    expect(smaller).toMatchObject({ events: 2 });
    expect(smaller.bytes).toBeLessThanOrEqual(3000);
    expect(filesWith(files, ...Array.from({ length: 8 }, (_, index) => `<${index}!>`))).toEqual([]);
    expect(filesWith(files, '<8!>', '<9!>')).toHaveLength(2);
    // An id that was forgotten may come again.
    expect(await recorder.ingest(token, [anEvent('e0')], 'bearer')).toMatchObject({ accepted: 1 });
  });

  it('limits also hold between two sweeps', async () => {
    const { recorder } = await open('flood');
    const token = await armed(recorder, 'agent', { content: 'full', retention: { events: 100 } });
    for (let batch = 0; batch < 10; batch++)
      await recorder.ingest(
        token,
        Array.from({ length: 50 }, (_, index) => anEvent(`${batch}.${index}`)),
        'bearer',
      );
    expect((await recorder.rack('agent')).events).toBeLessThanOrEqual(125);
  });
});
