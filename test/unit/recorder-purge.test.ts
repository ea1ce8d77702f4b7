import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { anEvent, armed, eventsOf, filesWith } from '../support/recorded.ts';
import { recorders } from '../support/recorders.ts';

const open = recorders();
const planted = 'planted text of a history';
const historyFiles = (folder: string) => readdirSync(folder).filter((name) => name.startsWith('agent'));

it('deletes all files of a history and reports what was deleted', async () => {
  const { recorder, folder } = await open('all');
  const token = await armed(recorder, 'agent');
  const others = await armed(recorder, 'external');
  const texts = Array.from({ length: 200 }, (_, index) =>
    anEvent(`${planted} ${index}`, { content: planted.repeat(50) }),
  );
  await recorder.ingest(token, texts, 'bearer');
  await recorder.ingest(others, [anEvent('o', { content: 'of another rack' })], 'bearer');
  recorder.record('agent', [anEvent('c', { content: `${planted}, captured` })]);
  expect(filesWith(folder, planted)).not.toEqual([]);
  const before = await recorder.rack('agent');
  const tombstone = await recorder.purge('agent', 'bearer');
  expect(tombstone).toMatchObject({ rack: 'agent', by: 'bearer', events: 201, verified: true });
  expect(tombstone.bytes).toBeGreaterThan(before.bytes);
  expect(tombstone.from).toBe(before.oldest);
  expect(filesWith(folder, planted)).toEqual([]);
  expect(filesWith(folder, 'of another rack')).not.toEqual([]);
  expect(await recorder.rack('agent')).toMatchObject({ armed: true, events: 0, bytes: 0, oldest: null });
  expect(await eventsOf(recorder, 'agent')).toEqual([]);
  expect(historyFiles(folder).every((name) => name.startsWith('agent.1.db'))).toBe(true);
  // It goes on, and the same ids are new.
  expect(await recorder.ingest(token, texts.slice(0, 3), 'bearer')).toMatchObject({ accepted: 3 });
  expect(await recorder.purge('agent', 'operator')).toMatchObject({ events: 3 });
  expect(await recorder.purge('agent', 'operator')).toMatchObject({ events: 0, from: null, to: null });
  expect(await recorder.purge('gateway', 'operator')).toMatchObject({ events: 0, verified: true });
  expect(filesWith(folder, planted)).toEqual([]);
  const acts = (await recorder.review({ limit: 100 })).entries.filter(({ act }) => act === 'purge');
  expect(acts.map(({ details }) => details['events'])).toEqual([201, 3, 0, 0]);
});

it('deletes earlier events and keeps later ones', async () => {
  const { recorder, folder } = await open('order');
  const token = await armed(recorder, 'agent');
  for (let round = 0; round < 5; round++) {
    const before = Array.from({ length: 8 }, (_, index) =>
      recorder.ingest(token, [anEvent(`${round}.b${index}`, { content: planted })], 'bearer'),
    );
    await Promise.all(before);
    const during = [1, 2, 3].map((index) =>
      recorder.ingest(token, [anEvent(`${round}.d${index}`)], 'bearer'),
    );
    const purging = Promise.all([recorder.purge('agent', 'bearer'), recorder.purge('agent', 'bearer')]);
    await purging;
    await recorder.ingest(token, [anEvent(`${round}.a`)], 'bearer');
    await Promise.all(during);
    const kept = (await eventsOf(recorder, 'agent')).map((row) => row['event_id']);
    expect(kept).toContain(`${round}.a`);
    expect(kept.filter((id) => String(id).includes('.b'))).toEqual([]);
    expect(filesWith(folder, planted)).toEqual([]);
  }
});

it('does not wait for readers, which continue on the old file', async () => {
  const { recorder, folder } = await open('readers');
  const token = await armed(recorder, 'agent');
  await recorder.ingest(
    token,
    [anEvent('a', { content: planted }), anEvent('b', { content: planted })],
    'bearer',
  );
  const [readable] = (await recorder.transcripts.readable('bearer')).racks;
  const reader = new DatabaseSync(readable?.path ?? '', { readOnly: true });
  reader.exec('begin');
  const rows = reader.prepare('select content from events order by seq').iterate();
  expect(rows.next().value).toEqual({ content: planted });
  expect(await recorder.purge('agent', 'bearer')).toMatchObject({ events: 2, verified: true });
  expect(filesWith(folder, planted)).toEqual([]);
  await recorder.ingest(token, [anEvent('c', { content: 'new' })], 'bearer');
  expect([...rows]).toEqual([{ content: planted }]);
  reader.exec('commit');
  reader.close();
  expect((await eventsOf(recorder, 'agent')).map((row) => row['content'])).toEqual(['new']);
  await recorder.close();
  const again = await open('readers');
  expect((await eventsOf(again.recorder, 'agent')).map((row) => row['content'])).toEqual(['new']);
});

it('many readers open and close histories while they are purged', async () => {
  const { recorder, folder } = await open('churn');
  const token = await armed(recorder, 'agent');
  const over = new AbortController();
  const readers = [1, 2].map(async () => {
    while (!over.signal.aborted) {
      await eventsOf(recorder, 'agent').catch(() => undefined);
      await recorder.racks();
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  try {
    for (let round = 0; round < 15; round++) {
      await recorder.ingest(token, [anEvent(`${round}`, { content: planted })], 'bearer');
      expect(await recorder.purge('agent', 'bearer')).toMatchObject({ events: 1 });
      expect(filesWith(folder, planted)).toEqual([]);
    }
  } finally {
    over.abort();
    await Promise.all(readers);
  }
  await recorder.sweep();
  expect(historyFiles(folder).every((name) => name.startsWith('agent.15.db'))).toBe(true);
});

it('works on a damaged history', async () => {
  const { recorder, folder } = await open('damaged');
  const token = await armed(recorder, 'agent');
  await recorder.ingest(token, [anEvent('a', { content: planted })], 'bearer');
  await recorder.close();
  writeFileSync(join(folder, 'agent.db'), `${planted} and no database`.repeat(1000));
  const again = (await open('damaged')).recorder;
  await expect(again.ingest(token, [anEvent('b')], 'bearer')).rejects.toMatchObject({ kind: 'unavailable' });
  await expect(again.rack('agent')).rejects.toMatchObject({ kind: 'unavailable' });
  expect(await again.purge('agent', 'bearer')).toMatchObject({ verified: true, events: 0 });
  expect(filesWith(folder, planted)).toEqual([]);
  expect(await again.ingest(token, [anEvent('b')], 'bearer')).toMatchObject({ accepted: 1 });
});
