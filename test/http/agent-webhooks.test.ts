/** Delivery of events to webhooks: signatures, order, failures, restarts, two hosts. */
import { afterEach, expect, it } from 'vitest';
import { EventFeed } from '../../src/agent/event-feed.ts';
import { agentEventTypes } from '../../src/agent/shapes/agent-event.ts';
import { StoredSignals } from '../../src/agent/signals.ts';
import type { WebhookConfig } from '../../src/agent/webhooks/config.ts';
import { webhookHeaders, webhookKey } from '../../src/webhooks/sign.ts';
import { Webhooks, type WebhooksOptions } from '../../src/agent/webhooks/webhooks.ts';
import { Store } from '../../src/store/index.ts';
import { seededRandom } from '../../src/util/random.ts';
import { describeDatabases } from '../support/databases.ts';
import { orderFaults, webhookReceiver } from '../support/webhook-receiver.ts';

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});
const hour = 3_600_000;

/** A host's webhooks on a database, with quick retries. */
async function openHost(
  database: string,
  hooks: readonly (string | Partial<WebhookConfig>)[],
  { endpointId = 'host-a', timings }: { endpointId?: string; timings?: WebhooksOptions['timings'] } = {},
) {
  const clock = { shiftMs: 0 };
  const now = () => new Date(Date.now() + clock.shiftMs);
  const store = await Store.open({ url: database, endpointId, now });
  const signals = new StoredSignals(store);
  const notices: string[] = [];
  const faults: unknown[] = [];
  const webhooks = new Webhooks({
    store,
    signals,
    configs: hooks.map((hook) => ({
      secret,
      headers: {},
      url: '',
      ...(typeof hook === 'string' ? { url: hook } : hook),
    })),
    feed: new EventFeed({ store, signals }),
    timings: { firstDelayMs: 20, maxDelayMs: 300, pollMs: 10, timeoutMs: 2000, leaseMs: 2000, ...timings },
    onNotice: (text) => notices.push(text),
    onFault: (_, error) => faults.push(error),
  });
  await webhooks.start();
  let isOpen = true;
  const stop = async () => {
    if (!isOpen) return;
    isOpen = false;
    await webhooks.stop();
    await store.close();
  };
  /** Writes nothing more, as if it was killed. */
  const kill = async () => {
    isOpen = false;
    await store.close();
    await webhooks.stop();
  };
  closers.push(stop);
  const emit = (type: string, id: string, more: object = {}) =>
    store.transaction((tx) => signals.add(tx, type, { id, ...more }));
  const states = () => webhooks.list();
  return { store, signals, webhooks, notices, faults, clock, stop, kill, emit, states };
}

const receiver = async (...args: Parameters<typeof webhookReceiver> | []) => {
  const made = await webhookReceiver(args[0] ?? secret, args[1]);
  closers.push(() => made.close());
  return made;
};

it('signs as the vector of the specification', () => {
  const key = webhookKey('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw') as Buffer;
  const body = '{"test": 2432232314}';
  expect(webhookHeaders({ id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', atMs: 1614265330_999, body }, key)).toEqual({
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
  for (const wrong of [
    '',
    'x',
    'whsec_',
    'whsec_c2hvcnQ=',
    'whsec_!!!!',
    `whsec_${Buffer.alloc(65).toString('base64')}`,
  ])
    expect(webhookKey(wrong)).toBeUndefined();
});

describeDatabases('webhooks', (url) => {
  it('get each event from the start of the endpoint on, signed, with the headers of the configuration', async () => {
    const { url: to, deliveries, faults } = await receiver();
    const database = await url();
    const early = await openHost(database, []);
    await early.emit('task.started', 't0');
    const host = await openHost(database, [
      { url: `${to}/all?token=hunter22`, headers: { 'x-team': 'blue' } },
      { url: `${to}/some`, types: ['pending', 'task.completed'] },
    ]);
    for (const type of agentEventTypes) await host.emit(type, `${type[0]}1`, { agent: 'coder' });
    await host.emit('user.secret', 'u1');
    await expect.poll(() => deliveries.length).toBe(agentEventTypes.length + 7);
    expect(faults).toEqual([]);
    const all = deliveries.filter(({ path }) => path === '/all?token=hunter22');
    expect(all.map(({ event }) => event.type).toSorted()).toEqual(agentEventTypes.toSorted());
    expect(all[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'lathe',
      'x-team': 'blue',
    });
    expect(all.find(({ event }) => event.type === 'task.completed')?.event).toMatchObject({
      data: { id: 't1', agent: 'coder', state: 'completed', url: '/agent/v1/tasks/t1' },
    });
    const some = deliveries.filter(({ path }) => path === '/some');
    expect(some.map(({ event }) => event.type).toSorted()).toEqual(
      agentEventTypes.filter((type) => type.startsWith('pending') || type === 'task.completed').toSorted(),
    );
    expect(new Set(deliveries.map(({ webhookId }) => webhookId)).size).toBe(deliveries.length);
    await expect.poll(host.states).toMatchObject([
      { url: `${to}/all?…`, state: 'active', delivered: agentEventTypes.length, waiting: 0, given_up: 0 },
      { url: `${to}/some`, types: ['pending', 'task.completed'], delivered: 7 },
    ]);
    expect(JSON.stringify(await host.states())).not.toMatch(/hunter22|whsec|blue/);
    expect(host.faults).toEqual([]);
  });

  it('keep the order of each subject under failures of every kind, and let others pass', async () => {
    const random = seededRandom(7);
    const {
      url: to,
      accepted,
      deliveries,
      faults,
    } = await receiver(secret, async ({ data }) => {
      if (data.id === 't9') return 500;
      await new Promise((resolve) => setTimeout(resolve, random() * 5));
      const luck = random();
      if (luck < 0.1) return 503;
      if (luck < 0.2) return 'reset';
      if (luck < 0.25) return { status: 307, headers: { location: `${to}/elsewhere` } };
      return luck < 0.3 ? { status: 429, headers: { 'retry-after': '1' } } : 200;
    });
    const host = await openHost(await url(), [`${to}/hook`]);
    const count = 60;
    for (let n = 0; n < count; n++) await host.emit('task.waiting', `t${n % 10}`);
    await expect.poll(() => new Set(accepted().map(({ event }) => event.id)).size).toBe(count - count / 10);
    expect(orderFaults(accepted())).toEqual([]);
    expect(faults).toEqual([]);
    // No redirect was followed, and a poisoned subject is tried with its first event only.
    expect(new Set(deliveries.map(({ path }) => path))).toEqual(new Set(['/hook']));
    const poisoned = deliveries.filter(({ event }) => event.data.id === 't9');
    expect(new Set(poisoned.map(({ event }) => event.id)).size).toBe(1);
    expect(new Set(poisoned.map(({ webhookId }) => webhookId)).size).toBe(1);
    await expect
      .poll(host.states)
      .toMatchObject([
        { waiting: count / 10, last_error: 'status 500', next_try_at: expect.any(String) as string },
      ]);
  });

  it('let a slow and a dead endpoint delay no other', async () => {
    const slow = await receiver(secret, () => 'hang');
    const quick = await receiver();
    const dead = await receiver();
    await dead.close();
    const host = await openHost(await url(), [slow.url, dead.url, quick.url]);
    for (let n = 0; n < 20; n++) await host.emit('task.started', `t${n}`);
    await expect.poll(() => quick.accepted().length).toBe(20);
    expect(slow.deliveries.length).toBeLessThanOrEqual(4);
    await expect.poll(async () => (await host.states())[0]?.last_error).toBe('no response within 2 s');
    await expect.poll(async () => (await host.states())[1]?.last_error).toBe('ECONNREFUSED');
    expect(await host.states()).toMatchObject([
      { waiting: 20 },
      { waiting: 20 },
      { waiting: 0, delivered: 20 },
    ]);
    expect(host.faults).toEqual([]);
  });

  it('go on after stops and kills in the middle: each event at least once, in order', async () => {
    const random = seededRandom(11);
    const {
      url: to,
      accepted,
      faults,
    } = await receiver(secret, async () => {
      await new Promise((resolve) => setTimeout(resolve, random() * 10));
      return random() < 0.2 ? 500 : 200;
    });
    const database = await url();
    const emitted: number[] = [];
    for (let round = 0; round < 6; round++) {
      const host = await openHost(database, [to]);
      for (let n = 0; n < 15; n++) emitted.push(await host.emit('run.waiting', `r${n % 5}`));
      await new Promise((resolve) => setTimeout(resolve, random() * 200));
      await (round % 2 === 0 ? host.kill() : host.stop());
    }
    const last = await openHost(database, [to]);
    await expect
      .poll(() => [...new Set(accepted().map(({ event }) => event.id))].toSorted((a, b) => a - b))
      .toEqual(emitted);
    await expect.poll(last.states).toMatchObject([{ waiting: 0 }]);
    const twice = accepted().length - emitted.length;
    // At most what was under way at a stop.
    expect(twice).toBeLessThanOrEqual(6 * 4);
    expect(orderFaults(accepted())).toEqual([]);
    expect(faults).toEqual([]);
  });

  it('are disabled by 410 until the host is started again', async () => {
    let isGone = true;
    const { url: to, accepted, deliveries } = await receiver(secret, () => (isGone ? 410 : 200));
    const database = await url();
    const host = await openHost(database, [to]);
    await host.emit('task.started', 't1');
    await expect
      .poll(host.states)
      .toMatchObject([{ state: 'disabled', waiting: 1, last_error: 'status 410' }]);
    await host.emit('task.completed', 't1');
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(deliveries.length).toBe(1);
    expect(host.notices).toEqual([
      `the webhook ${to}/ answered 410: it gets no more events until the host is restarted`,
    ]);
    await host.stop();
    isGone = false;
    await openHost(database, [to]);
    await expect
      .poll(() => accepted().map(({ event }) => event.type))
      .toEqual(['task.started', 'task.completed']);
  });

  it('give up after the limit with one notice, and the event stays in the feed', async () => {
    let isDown = true;
    const { url: to, accepted } = await receiver(secret, () => (isDown ? 500 : 200));
    const host = await openHost(await url(), [to]);
    const id = await host.emit('task.started', 't1', { agent: 'coder' });
    await host.emit('task.completed', 't1');
    await host.emit('task.started', 't2');
    await expect.poll(host.states).toMatchObject([{ waiting: 3, last_error: 'status 500' }]);
    host.clock.shiftMs = 73 * hour;
    await expect.poll(host.states).toMatchObject([{ waiting: 0, given_up: 3, delivered: 0 }]);
    expect(host.notices).toHaveLength(1);
    expect(host.notices[0]).toMatch(
      /gives up event \d+ \(task\.started of t[12]\).*status 500.*events\?after=/,
    );
    expect(await host.store.read((db) => host.signals.after(db, id - 1, 1))).toMatchObject([{ seq: id }]);
    isDown = false;
    await host.emit('task.started', 't3');
    await expect.poll(() => accepted().map(({ event }) => event.data.id)).toEqual(['t3']);
    // After the clock was set back, an event whose time is far away is sent at once.
    isDown = true;
    await host.emit('task.started', 't4');
    await expect.poll(host.states).toMatchObject([{ waiting: 1 }]);
    isDown = false;
    host.clock.shiftMs = 0;
    await expect.poll(() => accepted().map(({ event }) => event.data.id)).toEqual(['t3', 't4']);
  });

  it('are delivered by one of several hosts, and by another when it has ended', async () => {
    const { url: to, accepted } = await receiver();
    const database = await url();
    const first = await openHost(database, [to], { endpointId: 'host-a' });
    const second = await openHost(database, [to], { endpointId: 'host-b' });
    for (let n = 0; n < 20; n++) await (n % 2 === 0 ? first : second).emit('task.started', `t${n}`);
    await expect.poll(() => accepted().length).toBe(20);
    await expect.poll(second.states).toMatchObject([{ state: 'elsewhere', delivered: 20 }]);
    await first.kill();
    await second.emit('task.completed', 't1');
    await expect.poll(() => accepted().length).toBe(21);
    await expect.poll(second.states).toMatchObject([{ state: 'active', delivered: 21, waiting: 0 }]);
  });

  it('forget an endpoint that no host has had for 30 days', async () => {
    const { url: to } = await receiver(secret, () => 500);
    const database = await url();
    const host = await openHost(database, [to]);
    await host.emit('task.started', 't1');
    await expect.poll(host.states).toMatchObject([{ waiting: 1 }]);
    await host.stop();
    const { DeliveryStore } = await import('../../src/agent/webhooks/delivery-store.ts');
    const later = await openHost(database, []);
    const count = () =>
      later.store.read(async (db) => [
        (await db.selectFrom('webhooks').select('id').execute()).length,
        (await db.selectFrom('webhook_deliveries').select('seq').execute()).length,
      ]);
    await DeliveryStore.prune(later.store);
    expect(await count()).toEqual([1, 1]);
    // Where a signal is deleted, the next event of its subject follows.
    await later.emit('task.completed', 't1');
    const again = await openHost(database, [to]);
    await expect.poll(again.states).toMatchObject([{ waiting: 2 }]);
    await again.stop();
    await later.store.transaction((tx) => tx.deleteFrom('signals').where('seq', '=', 1).execute());
    await DeliveryStore.prune(later.store);
    const left = await later.store.read((db) => db.selectFrom('webhook_deliveries').selectAll().execute());
    expect(left).toMatchObject([{ seq: 2, next_at: expect.any(String) as string }]);
    later.clock.shiftMs = 31 * 24 * hour;
    await DeliveryStore.prune(later.store);
    expect(await count()).toEqual([0, 0]);
  });
});
