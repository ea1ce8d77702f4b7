import { join } from 'node:path';
import { networkInterfaces } from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import { controlAct } from '../../src/agent/shapes/control-act.ts';
import { workReceipt } from '../../src/agent/shapes/receipt.ts';
import { type Session, session } from '../../src/agent/shapes/session.ts';
import { describeDatabases } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import { routeServers } from '../support/serve-routes.ts';
import { journal, openSessionPlane, operatorToken } from '../support/session-plane.ts';

const serve = routeServers();
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((plane) => plane.close()));
});
async function host(given: Parameters<typeof openSessionPlane>[0]) {
  const plane = await openSessionPlane(given);
  open.push(plane);
  const { send, faults } = await serve(plane.routes);
  const feed = async (query = '') => {
    const answer = await send('GET', `/agent/v1/sessions${query}`);
    expect(answer.status).toBe(200);
    const { sessions } = (await answer.json()) as { sessions: Session[] };
    return sessions.map((row) => session.strict().parse(row));
  };
  const revoke = (id: string, headers: Record<string, string> = {}) =>
    send('POST', `/agent/v1/sessions/${id}/revoke`, undefined, headers);
  const cancel = (id: string) => send('POST', `/agent/v1/sessions/${id}/cancel`);
  /** A separate store session. */
  const opened = (subject = 't1') =>
    plane.store.transaction((tx) => plane.sessions.open(tx, 'task', subject));
  return { plane, send, faults, feed, revoke, cancel, opened };
}
const at = (second: number) => new Date(Date.UTC(2029, 0, 1) + second * 1000).toISOString();
const sqlite = () => `sqlite:${join(freshDataDir(), 'lathe.db')}`;
const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;
const live = (id: string, kind: 'task' | 'run', second: number): Session => ({
  id,
  kind,
  title: id,
  state: 'running',
  started_at: at(second),
  cancellable: kind === 'run',
});
const rows = (...many: Session[]) => ({ live: () => Promise.resolve(many) });

describeDatabases('the feed', (url) => {
  test('live tasks and runs, external sessions, the host, then ended ones; each newest first', async () => {
    const { plane, feed } = await host({
      url: await url(),
      tasks: rows(live('t9', 'task', 90), live('t8', 'task', 70)),
      runs: {
        ...rows(live('r2', 'run', 80), { ...live('r1', 'run', 10), state: 'paused' }),
        cancel: () => Promise.resolve(),
      },
    });
    await journal(plane.store, [
      { id: 't1', state: 'completed', at: at(1) },
      { id: 't2', state: 'failed', at: at(5) },
      { id: 'r100', state: 'cancelled', at: at(3) },
      { id: 'r200', state: 'completed', at: at(7) },
      { id: 't9', state: 'running', at: at(90) },
      { id: 'r2', state: 'running', at: at(80) },
      { id: 'r1', state: 'suspended', at: at(10) },
      { id: 't10', state: 'completed', at: at(5) },
    ]);
    const first = await plane.external.register({ harness: 'h' }, 'local');
    plane.clock.pass(1000);
    const second = await plane.external.register({ harness: 'h' }, 'local');
    const ids = (await feed()).map(({ id }) => id);
    expect(ids).toEqual([
      't9',
      'r2',
      't8',
      'r1',
      second.id,
      first.id,
      'host',
      'r200',
      't10',
      't2',
      'r100',
      't1',
    ]);
    const all = await feed('?limit=2');
    expect(all.map(({ id }) => id).slice(7)).toEqual(['r200', 't10']);
    expect(all.find(({ id }) => id === 't10')).toEqual({
      id: 't10',
      kind: 'task',
      title: 'task t10',
      state: 'completed',
      started_at: at(5),
      ended_at: at(5),
      last_event: 'answer',
      cwd: '/work',
      tokens: { prompt: 10, completion: 5 },
      route: { engine: 'resident', model: 'tiny' },
      cancellable: false,
    });
    // Undisclosed is absent.
    const run = (await feed()).find(({ id }) => id === 'r200');
    for (const member of ['tokens', 'route', 'wrapper_cycle', 'last_event'])
      expect(run).not.toHaveProperty(member);
  });

  test('a session that ends during the read is listed once, as ended', async () => {
    const { plane, feed } = await host({ url: await url(), tasks: rows(live('t1', 'task', 1)) });
    await journal(plane.store, [{ id: 't1', state: 'completed', at: at(1) }]);
    expect((await feed()).map(({ id, state }) => [id, state])).toEqual([
      ['host', 'running'],
      ['t1', 'completed'],
    ]);
  });

  test('cancelled is shown as failed when the host is configured so', async () => {
    const { plane, feed } = await host({ url: await url(), cancelledState: false });
    await journal(plane.store, [{ id: 'r1', state: 'cancelled', at: at(1) }]);
    expect((await feed()).at(-1)).toMatchObject({ id: 'r1', state: 'failed' });
  });

  test('other hosts on the database have their own feeds', async () => {
    const where = await url();
    const one = await host({ url: where });
    const two = await host({ url: where, endpointId: 'e1' });
    await journal(one.plane.store, [{ id: 't1', state: 'completed', at: at(1) }]);
    await one.plane.external.register({ harness: 'h' }, 'local');
    expect(await one.feed()).toHaveLength(3);
    expect(await two.feed()).toHaveLength(1);
  });

  test('10,000 rows of journal', async () => {
    const { plane, feed } = await host({ url: await url() });
    const many = Array.from({ length: 10_000 }, (_, n) => ({
      id: n % 2 === 0 ? `t${n}` : `r${1_000_000 + n}`,
      state: 'completed',
      at: at(n),
    }));
    await journal(plane.store, many);
    const times: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const began = performance.now();
      const shown = await feed();
      times.push(performance.now() - began);
      expect(shown.slice(1).map(({ id }) => id)).toEqual(
        many
          .slice(-200)
          .reverse()
          .map(({ id }) => id),
      );
    }
    const whole = performance.now();
    expect(await feed('?limit=10000')).toHaveLength(10_001);
    const wholeMs = performance.now() - whole;
    const best = Math.min(...times).toFixed(1);
    process.stdout.write(`feed over 10,000 rows: 200 in ${best} ms, all in ${wholeMs.toFixed(0)} ms\n`);
  });
});

describe('a feed that cannot be read', () => {
  test('is a 500 without rows, whichever part fails', async () => {
    for (const broken of ['tasks', 'runs', 'external_sessions']) {
      const url = sqlite();
      const { plane, send, feed } = await host({ url });
      await journal(plane.store, [{ id: 't1', state: 'completed', at: at(1) }]);
      expect(await feed()).toHaveLength(2);
      const db = new DatabaseSync(url.replace('sqlite:', ''), { timeout: 60_000 });
      db.exec(`alter table ${broken} rename to gone`);
      db.close();
      const answer = await send('GET', '/agent/v1/sessions');
      expect(answer.status).toBe(500);
      const body = (await answer.json()) as Record<string, unknown>;
      expect(Object.keys(body)).toEqual(['error']);
      expect(body['error']).toMatchObject({ code: 'journal_unreadable' });
    }
  });

  test('limits are whole numbers', async () => {
    const { send } = await host({ url: sqlite() });
    for (const limit of ['0', '-1', '1.5', 'x', '', '10001', '1e3', '9'.repeat(400)]) {
      const answer = await send('GET', `/agent/v1/sessions?limit=${limit}`);
      expect([limit, answer.status]).toEqual([limit, 400]);
    }
  });
});

describeDatabases('revoking', (url) => {
  test('by its own capability or by the operator; permanent; idempotent', async () => {
    const where = await url();
    const { plane, revoke, opened } = await host({ url: where });
    const mine = await opened();
    expect(mine.id).toMatch(/^s[0-9a-f]{8}-\d+$/);
    const other = await opened('t2');
    expect(await plane.sessions.isRevoked(mine.id)).toBe(false);
    const done = await revoke(mine.id, { 'x-svc-session-secret': mine.capability });
    expect(done.status).toBe(200);
    const act = { verb: 'revoke', target: mine.id, by: `session:${mine.id}`, outcome: 'applied' };
    expect(controlAct.strict().parse(await done.json())).toEqual(act);
    expect(await plane.sessions.isRevoked(mine.id)).toBe(true);
    expect(await plane.sessions.isRevoked(other.id)).toBe(false);
    const row = () =>
      plane.store.read((db) =>
        db
          .selectFrom('store_sessions')
          .select('revoked_at')
          .where('id', '=', mine.id)
          .executeTakeFirstOrThrow(),
      );
    const first = await row();
    plane.clock.pass(5000);
    const again = await revoke(mine.id, { 'x-svc-operator': operatorToken });
    expect(await again.json()).toEqual({ ...act, by: 'operator' });
    expect(await row()).toEqual(first);
    const both = await revoke(other.id, {
      'x-svc-operator': operatorToken,
      'x-svc-session-secret': other.capability,
    });
    expect(await both.json()).toMatchObject({ target: other.id, by: 'operator', outcome: 'applied' });
    // Also after a restart, and for an unknown session.
    const restarted = await host({ url: where });
    expect(await restarted.plane.sessions.isRevoked(mine.id)).toBe(true);
    expect(await restarted.plane.sessions.isRevoked('sdeadbeef-1')).toBe(true);
    const acts = (await plane.acts()).filter(({ verb }) => verb === 'revoke');
    expect(acts.map(({ target, by, outcome }) => [target, by, outcome])).toEqual([
      [mine.id, `session:${mine.id}`, 'applied'],
      [mine.id, 'operator', 'applied'],
      [other.id, 'operator', 'applied'],
    ]);
  });

  test('the same refusal for a missing, wrong or foreign credential; every refusal is journaled', async () => {
    const { plane, revoke, opened } = await host({ url: await url() });
    const mine = await opened();
    const other = await opened();
    const credentials: Record<string, string>[] = [
      {},
      { 'x-svc-session-secret': '' },
      { 'x-svc-session-secret': 'wrong' },
      { 'x-svc-session-secret': other.capability },
      { 'x-svc-session-secret': operatorToken },
      { 'x-svc-operator': 'wrong' },
      { 'x-svc-operator': mine.capability },
      { 'x-svc-operator': 'wrong', 'x-svc-session-secret': mine.capability },
      { authorization: `Bearer ${operatorToken}` },
    ];
    const texts = new Set<string>();
    for (const headers of credentials) {
      const answer = await revoke(mine.id, headers);
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBeNull();
      texts.add(await answer.text());
    }
    expect(texts.size).toBe(1);
    const [text = ''] = texts;
    expect(text).toContain('x-svc-session-secret');
    for (const secret of [mine.capability, other.capability, operatorToken])
      expect(text).not.toContain(secret);
    for (const id of ['sdeadbeef-1', 't1', 'r1', 'x1', 'host', `${mine.id}0`, 'S', mine.id.toUpperCase()])
      for (const headers of [{}, { 'x-svc-operator': operatorToken }]) {
        const answer = await revoke(id, headers);
        expect([id, answer.status, await codeOf(answer)]).toEqual([id, 404, 'unknown_session']);
      }
    expect(await plane.sessions.isRevoked(mine.id)).toBe(false);
    const acts = await plane.acts();
    expect(acts).toHaveLength(credentials.length + 16);
    expect(new Set(acts.map(({ outcome }) => outcome))).toEqual(new Set(['refused']));
    expect(new Set(acts.map(({ reason }) => reason))).toEqual(
      new Set(['credential_required', 'unknown_session']),
    );
    const written = JSON.stringify(acts);
    for (const secret of [mine.capability, other.capability, operatorToken])
      expect(written).not.toContain(secret);
  });

  test("another host's operator credential is refused", async () => {
    const where = await url();
    const one = await host({ url: where });
    const two = await host({ url: where, endpointId: 'e1' });
    const { id } = await one.opened();
    expect((await two.revoke(id, { 'x-svc-operator': operatorToken })).status).toBe(404);
    expect(await one.plane.sessions.isRevoked(id)).toBe(false);
  });
});

test('the operator credential is valid from this machine only', async () => {
  const outside = Object.values(networkInterfaces())
    .flatMap((many) => many ?? [])
    .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  if (outside === undefined) return;
  const plane = await openSessionPlane({ url: sqlite() });
  open.push(plane);
  const { send, url } = await serve(plane.routes, undefined, '0.0.0.0');
  const { id } = await plane.store.transaction((tx) => plane.sessions.open(tx, 'run', 'r1'));
  const headers = { 'x-svc-operator': operatorToken };
  const path = `/agent/v1/sessions/${id}/revoke`;
  const abroad = await fetch(`${url.replace('127.0.0.1', outside)}${path}`, { method: 'POST', headers });
  expect(abroad.status).toBe(401);
  expect((await send('POST', path, undefined, headers)).status).toBe(200);
});

describe('cancel', () => {
  test('a live run is cancelled; other sessions are refused with the reason', async () => {
    const cancelled: string[] = [];
    const { cancel, plane } = await host({
      url: sqlite(),
      tasks: rows(live('t5', 'task', 1)),
      runs: {
        ...rows(live('r1', 'run', 1)),
        async cancel(id, by) {
          if (id === 'r2') throw new AgentError('conflict', 'not_cancellable', 'resumed');
          if (id !== 'r1') throw new AgentError('not_found', 'unknown_session', 'none');
          cancelled.push(`${id} ${by}`);
        },
      },
    });
    const { id } = await plane.external.register({ harness: 'h' }, 'local');
    const response = await cancel('r1');
    expect([response.status, await response.json()]).toEqual([202, { id: 'r1', cancel: 'requested' }]);
    expect(cancelled).toEqual(['r1 local']);
    for (const [other, status] of [
      ['r2', 409],
      ['t5', 409],
      ['host', 409],
      [id, 409],
      ['r3', 404],
      ['t6', 404],
      ['x1', 404],
      ['sdeadbeef-1', 404],
      ['nobody', 404],
    ] as const)
      expect([other, (await cancel(other)).status]).toEqual([other, status]);
  });
});

test('a receipt exists when its session has ended', async () => {
  const { plane, send } = await host({ url: sqlite() });
  const get = (id: string) => send('GET', `/agent/v1/sessions/${id}/receipt`);
  const { id } = await plane.external.register({ harness: 'h' }, 'local');
  for (const other of [id, 't1', 'r1', 'nobody']) expect((await get(other)).status).toBe(404);
  await plane.external.end(id, { outcome: 'cancelled' });
  const answer = await get(id);
  expect(answer.status).toBe(200);
  expect(workReceipt.strict().parse(await answer.json())).toMatchObject({ id, outcome: 'cancelled', seq: 1 });
});
