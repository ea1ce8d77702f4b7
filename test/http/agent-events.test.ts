/** The feed of events over HTTP, on runs and pending changes of one host and of two. */
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { toAgentEvent } from '../../src/agent/event-feed.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import { Store } from '../../src/store/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { eventsOf, readFeed } from '../support/event-reader.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { agents, PersistentWorld, type RunHost, runWorlds, step } from '../support/run-world.ts';

const workflow =
  agents +
  step('a', 'say x') +
  step('b', 'stage', 'needs = ["a"]') +
  step('c', 'say y', 'needs = ["b"]\ngate = { kind = "input" }');

/** Runs the workflow to its end. */
async function runWhole(host: RunHost): Promise<string> {
  const id = await host.begin('one');
  const change = await host.asked('count');
  await host.json('POST', `pending/${change}/approve`);
  await host.becomes(id, { state: 'suspended', waiting_on: 'input' });
  await host.json('POST', `runs/${id}/resume`, { inputs: {} });
  await host.becomes(id, { state: 'completed' });
  return id;
}

const feed = (host: RunHost, query = '', headers: Record<string, string> = {}) =>
  host.send('GET', `/agent/v1/events${query}`, undefined, headers);

describeDatabases('the feed of events', (url) => {
  const open = runWorlds();
  const outside = new PersistentWorld();
  outside.define('one', workflow);
  outside.define('plain', agents + step('a', 'say x'));

  it('tells of a run and its changes, in order, with links and without contents', async () => {
    const host = await open(outside, { url: await url() });
    const live = await feed(host);
    expect(live.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const reading = readFeed(live, (frames) => frames.at(-1)?.event?.type === 'run.completed');
    const id = await runWhole(host);
    const frames = await reading;
    // Where it begins, before anything has happened.
    expect(frames[0]).toEqual({ id: 0 });
    const events = eventsOf(frames);
    expect(events.map(({ type, data }) => [type, data.state])).toEqual([
      ['run.started', 'running'],
      ['run.step_ended', 'running'],
      ['pending.staged', 'staged'],
      ['run.waiting', 'running'],
      ['pending.applied', 'applied'],
      ['run.step_ended', 'running'],
      ['run.waiting', 'running'],
      ['run.suspended', 'suspended'],
      ['run.resumed', 'running'],
      ['run.step_ended', 'running'],
      ['run.completed', 'completed'],
    ]);
    expect(events.map((event) => event.id)).toEqual(events.map((_, index) => index + 1));
    expect(events[2]?.data).toEqual({
      id: 'p1',
      state: 'staged',
      url: '/agent/v1/pending/p1',
      kind: 'tool_call',
      tool: 'count',
      agent: 'a',
      summary: 'Count',
      risk: 'low',
      run_id: id,
      step: 'b',
    });
    expect(events[3]?.data).toMatchObject({ waiting_on: 'approval', pending_id: 'p1', step: 'b' });
    for (const { data } of events) expect((await host.send('GET', data.url)).status).toBe(200);
    // The feed is what the table says.
    const signals = await host.store.read((db) => new StoredSignals(host.store).after(db, 0, 1000));
    expect(events).toEqual(signals.flatMap((signal) => toAgentEvent(signal) ?? []));
  });

  it('goes on after any id, with a header or a query, and only with the types that are asked for', async () => {
    const host = await open(outside, { url: await url() });
    await runWhole(host);
    const all = eventsOf(await readFeed(await feed(host, '?after=0'), (frames) => frames.length > 11));
    for (const { id } of all) {
      const rest = all.filter((event) => event.id > id);
      const frames = await readFeed(
        await feed(host, '?after=0', { 'last-event-id': String(id) }),
        (some) => some.length > rest.length,
      );
      expect(frames[0]).toEqual({ id });
      expect(eventsOf(frames)).toEqual(rest);
    }
    for (const types of ['pending', 'run.completed,pending.staged', 'run,pending']) {
      const wanted = types.split(',');
      const expected = all.filter(
        ({ type }) => wanted.includes(type) || wanted.includes(type.split('.')[0] ?? ''),
      );
      const frames = await readFeed(
        await feed(host, `?after=0&types=${types}`),
        (some) => eventsOf(some).length >= expected.length,
      );
      expect(eventsOf(frames)).toEqual(expected);
    }
    // Events of users are for gates.
    await host.json('POST', 'events', { name: 'user.secret', data: { password: 'x' } });
    const next = readFeed(
      await feed(host, `?after=${all.at(-1)?.id}`),
      (frames) => eventsOf(frames).length > 0,
    );
    await host.begin('one');
    expect(eventsOf(await next).slice(0, 1)).toMatchObject([
      { id: (all.at(-1)?.id ?? 0) + 2, type: 'run.started' },
    ]);
  });

  it('refuses what is no id or no type, and an id whose events are gone', async () => {
    const host = await open(outside, { url: await url() });
    expect(await host.code('GET', 'events?after=x')).toEqual([400, 'invalid_value']);
    expect(await host.code('GET', 'events?types=tasks')).toEqual([400, 'invalid_value']);
    expect(await host.code('GET', 'events?after=5')).toEqual([410, 'events_gone']);
    await runWhole(host);
    await host.store.transaction((tx) => tx.deleteFrom('signals').where('seq', '<=', 3).execute());
    expect(await host.code('GET', 'events?after=2')).toEqual([410, 'events_gone']);
    const kept = await readFeed(await feed(host, '?after=3'), (frames) => frames.length > 1);
    expect(kept[1]?.id).toBe(4);
  });

  it('shows the events of all hosts on the database', async () => {
    const database = await url();
    const first = await open(outside, { url: database, endpointId: 'host-a' });
    const second = await open(outside, { url: database, endpointId: 'host-b' });
    const readings = [first, second].map(async (host) =>
      readFeed(
        await feed(host),
        (frames) => eventsOf(frames).filter(({ type }) => type === 'run.completed').length === 2,
      ),
    );
    const ids = (await Promise.all([first.run('plain'), second.run('plain')])).map(({ id }) => id);
    const [one, other] = await Promise.all(readings);
    expect(eventsOf(one ?? [])).toEqual(eventsOf(other ?? []));
    expect(new Set(eventsOf(one ?? []).map(({ data }) => data.id))).toEqual(new Set(ids));
  });

  it('holds no memory for a reader that does not read', async () => {
    const host = await open(outside, { url: await url() });
    const { port } = new URL(host.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write('GET /agent/v1/events?after=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
    socket.pause();
    const total = 40_000;
    await host.store.transaction(async (tx) => {
      const data = JSON.stringify({ id: 'p1', summary: 'x'.repeat(400) });
      for (let first = 1; first <= total; first += 1000)
        await tx
          .insertInto('signals')
          .values(
            Array.from({ length: 1000 }, (_, index) => ({
              seq: first + index,
              name: 'pending.staged',
              at: host.store.time(),
              data,
            })),
          )
          .execute();
      await tx.updateTable('counters').set({ value: total }).where('name', '=', 'signal').execute();
    });
    let read = 0;
    const { signals } = host;
    const after = signals.after.bind(signals);
    signals.after = async (...args) => {
      const found = await after(...args);
      read += found.length;
      return found;
    };
    // What the sockets take, and then nothing more.
    let before = -1;
    while (before !== read || read === 0) {
      before = read;
      await new Promise((resolve) => setTimeout(resolve, 700));
    }
    expect(read).toBeLessThan(total / 2);
    // It gets everything when it reads again.
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => (text = (text + chunk).slice(-4000)));
    socket.resume();
    await expect.poll(() => text).toContain(`id: ${total}\n`);
    socket.destroy();
  });
});

describeDatabases('retention of events', (url) => {
  it('keeps 30 days and 200,000 rows, and no gap arises', async () => {
    const clock = new ManualClock();
    const store = await Store.open({ url: await url(), endpointId: 'a', now: clock.now });
    const signals = new StoredSignals(store);
    const add = (count: number) =>
      store.transaction(async (tx) => {
        for (let n = 0; n < count; n++) await signals.add(tx, 'task.started', { id: `t${n}` });
      });
    await add(1500);
    clock.jump(31 * 24 * 3600 * 1000);
    await add(3);
    await signals.prune();
    expect((await store.read((db) => signals.after(db, 0, 10))).map(({ seq }) => seq)).toEqual([
      1501, 1502, 1503,
    ]);
    await store.transaction((tx) =>
      tx.updateTable('counters').set({ value: 201_502 }).where('name', '=', 'signal').execute(),
    );
    await signals.prune();
    expect((await store.read((db) => signals.after(db, 0, 10))).map(({ seq }) => seq)).toEqual([1503]);
    await store.close();
  });
});
