import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { session } from '../../src/agent/shapes/session.ts';
import { describeDatabases } from '../support/databases.ts';
import { freshDataDir } from '../support/host.ts';
import { routeServers } from '../support/serve-routes.ts';
import { openSessionPlane } from '../support/session-plane.ts';

const serve = routeServers();
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((plane) => plane.close()));
});
async function host(given: Parameters<typeof openSessionPlane>[0]) {
  const plane = await openSessionPlane(given);
  open.push(plane);
  const { send, url, faults } = await serve(plane.routes);
  const register = async (body: object = { harness: 'h' }) => {
    const answer = await send('POST', '/agent/v1/sessions', body);
    return (await answer.json()) as { id: string; secret: string; heartbeat_secs: number };
  };
  const beat = (id: string, secret?: string, body: unknown = {}) =>
    send('POST', `/agent/v1/sessions/${id}/heartbeat`, body, secretHeader(secret));
  const end = (id: string, secret?: string, body: unknown = { outcome: 'completed' }) =>
    send('POST', `/agent/v1/sessions/${id}/end`, body, secretHeader(secret));
  const feed = async () => {
    const { sessions } = (await (await send('GET', '/agent/v1/sessions')).json()) as {
      sessions: { id: string; kind: string }[];
    };
    return sessions.map((row) => session.strict().parse(row));
  };
  return { plane, send, url, faults, register, beat, end, feed };
}
const secretHeader = (secret?: string) =>
  secret === undefined ? {} : ({ 'x-svc-session-secret': secret } as Record<string, string>);
const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;

describeDatabases('external sessions', (url) => {
  test('register, heartbeat, end: the row in the feed, the claims, the receipt', async () => {
    const { send, register, beat, end, feed, plane } = await host({ url: await url() });
    const about = {
      harness: 'make',
      client: 'ci',
      title: 'nightly',
      cwd: '/build',
      pid: 7,
      labels: { 'a/b': 'c' },
      unknown: 1,
    };
    const answer = await send('POST', '/agent/v1/sessions', about);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const made = (await answer.json()) as { id: string; secret: string };
    expect(Object.keys(made).sort()).toEqual(['heartbeat_secs', 'id', 'secret']);
    expect(made).toMatchObject({ heartbeat_secs: 15, secret: expect.stringMatching(/.{43}/) });
    const { id, secret } = made;
    expect(id).toMatch(/^x\d{19}[0-9a-f]{8}$/);
    const row = {
      id,
      kind: 'external',
      title: 'nightly',
      state: 'running',
      harness: 'make',
      client: 'ci',
      cwd: '/build',
      stale: false,
      cancellable: false,
    };
    const [first, second] = await feed();
    expect(first).toMatchObject(row);
    expect(first).not.toHaveProperty('tokens_claimed');
    expect(second).toMatchObject({ id: 'host', kind: 'host', state: 'running', cancellable: false });

    const beaten = await beat(id, secret, {
      status: 'waiting',
      tokens: { prompt: 10, completion: 3 },
      last_event: 'x'.repeat(200),
    });
    expect(beaten.status).toBe(200);
    expect(await beaten.json()).toEqual({
      id,
      deadline_at: new Date(plane.clock.now().getTime() + 30_000).toISOString(),
    });
    const [waiting] = await feed();
    expect(waiting).toMatchObject({
      state: 'waiting',
      tokens_claimed: { prompt: 10, completion: 3 },
      last_event: 'x'.repeat(200),
    });
    expect(waiting).not.toHaveProperty('tokens');
    // Cumulative: a beat that comes late takes nothing back. An empty one only renews.
    await beat(id, secret, { status: 'running', tokens: { prompt: 4, completion: 5 } });
    expect((await beat(id, secret)).status).toBe(200);
    expect((await feed())[0]).toMatchObject({
      state: 'running',
      tokens_claimed: { prompt: 10, completion: 5 },
    });

    expect((await send('GET', `/agent/v1/sessions/${id}/receipt`)).status).toBe(404);
    const over = await end(id, secret, { outcome: 'failed', exit_code: -2, summary: 's'.repeat(500) });
    expect([over.status, await over.json()]).toEqual([200, { id, ended: true }]);
    expect((await feed()).map(({ kind }) => kind)).toEqual(['host']);
    const receipt = (await (await send('GET', `/agent/v1/sessions/${id}/receipt`)).json()) as object;
    expect(receipt).toMatchObject({
      contract: 1,
      id,
      kind: 'external',
      outcome: 'failed',
      exit_code: -2,
      summary: 's'.repeat(500),
      harness: 'make',
      client: 'ci',
      cwd: '/build',
      tokens_claimed: { prompt: 10, completion: 5 },
      close_reason: 'ended',
    });
    expect(receipt).not.toHaveProperty('tokens');
    expect((await plane.acts()).map(({ verb, by, target }) => [verb, by, target])).toEqual([
      ['session.register', 'local', id],
      ['session.end', `session:${id}`, id],
    ]);
    for (const again of [await end(id, secret), await beat(id, secret)]) expect(again.status).toBe(404);
    // What was not claimed is undisclosed, not zero.
    const bare = await register();
    await end(bare.id, bare.secret);
    const undisclosed = await plane.receipts.get(bare.id);
    for (const member of ['exit_code', 'summary', 'tokens', 'tokens_claimed', 'client', 'cwd'])
      expect(undisclosed).not.toHaveProperty(member);
  });

  test('checks credentials and ids in a fixed order, with one 401 for all wrong secrets', async () => {
    const { register, beat, end, send } = await host({ url: await url() });
    const { id, secret } = await register();
    const other = await register();
    const unknown = `x${'1'.repeat(19)}deadbeef`;
    const expectations: [Promise<Response>, number][] = [
      [beat(id), 401],
      [beat(id, ''), 401],
      [beat(id, 'wrong'), 401],
      [beat(id, other.secret), 401],
      [beat(id, secret.slice(0, -1)), 401],
      [beat(unknown, secret), 404],
      [beat(unknown), 401],
      [beat('t1', secret), 409],
      [beat('r1', secret), 409],
      [beat('host', secret), 409],
      [end(id), 401],
      [end(id, other.secret), 401],
      [end(unknown, secret), 404],
      [end('t1', secret), 404],
    ];
    for (const [answer, status] of expectations) expect((await answer).status).toBe(status);
    const [missing, wrong] = [await beat(id), await beat(id, 'wrong')];
    const text = await missing.text();
    expect(text).toBe(await wrong.text());
    expect(text).toContain('x-svc-session-secret');
    expect(text).not.toContain(secret);
    // Without the secret, the response does not disclose whether the body is valid.
    expect((await beat(id, 'wrong', { status: 'done' })).status).toBe(401);
    expect((await beat(id, secret, { status: 'done' })).status).toBe(400);
    expect((await send('GET', `/agent/v1/sessions/${id}/receipt`)).status).toBe(404);
  });

  test('reports all faults of a body at once', async () => {
    const { send, register, beat, end } = await host({ url: await url() });
    const paths = async (answer: Response) => {
      expect(answer.status).toBe(400);
      const { error } = (await answer.json()) as { error: { violations: { path: string }[] } };
      return error.violations.map(({ path }) => path).sort();
    };
    const bad = {
      harness: '',
      client: 1,
      title: 'x'.repeat(201),
      cwd: [],
      pid: 0.5,
      labels: { '': 'x', ok: 1 },
      idempotency_key: 'k'.repeat(256),
    };
    expect(await paths(await send('POST', '/agent/v1/sessions', bad))).toEqual(
      ['client', 'cwd', 'harness', 'idempotency_key', 'labels.', 'labels.ok', 'pid', 'title'].sort(),
    );
    for (const body of ['[]', '"x"', 'null', '{}'])
      expect((await send('POST', '/agent/v1/sessions', body)).status).toBe(400);
    const many = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, '']));
    expect(await paths(await send('POST', '/agent/v1/sessions', { harness: 'h', labels: many }))).toEqual([
      'labels',
    ]);
    const { id, secret } = await register();
    expect(
      await paths(
        await beat(id, secret, {
          status: 'completed',
          tokens: { prompt: 1.5, completion: -1 },
          last_event: 'x'.repeat(201),
        }),
      ),
    ).toEqual(['last_event', 'status', 'tokens.completion', 'tokens.prompt']);
    expect(await paths(await beat(id, secret, { tokens: { prompt: 1 } }))).toEqual(['tokens.completion']);
    expect(
      await paths(await end(id, secret, { outcome: 'lost', exit_code: '0', summary: 's'.repeat(501) })),
    ).toEqual(['exit_code', 'outcome', 'summary']);
    expect(await paths(await end(id, secret, {}))).toEqual(['outcome']);
    expect((await end(id, secret)).status).toBe(200);
  });

  test('the cap is a 429, and an end makes room', async () => {
    const { send, register, end } = await host({ url: await url(), maxSessions: 3 });
    const first = await register();
    await register();
    await register();
    const refused = await send('POST', '/agent/v1/sessions', { harness: 'h' });
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await codeOf(refused)).toBe('too_many_sessions');
    await end(first.id, first.secret);
    expect((await send('POST', '/agent/v1/sessions', { harness: 'h' })).status).toBe(201);
  });

  test('the same idempotency_key: the same session with a new secret; never another one', async () => {
    const { send, register, beat, end, feed } = await host({ url: await url(), maxSessions: 1 });
    const about = { harness: 'h', labels: { a: '1', b: '2' }, idempotency_key: 'once' };
    const first = await register(about);
    const again = await register({ ...about, labels: { b: '2', a: '1' } });
    expect(again.id).toBe(first.id);
    expect(again.secret).not.toBe(first.secret);
    expect(await feed()).toHaveLength(2);
    expect((await beat(first.id, first.secret)).status).toBe(401);
    expect((await beat(first.id, again.secret)).status).toBe(200);
    const other = await send('POST', '/agent/v1/sessions', { ...about, harness: 'g' });
    expect([other.status, await codeOf(other)]).toEqual([409, 'idempotency_conflict']);
    await end(again.id, again.secret);
    const late = await send('POST', '/agent/v1/sessions', about);
    expect([late.status, await codeOf(late)]).toEqual([409, 'idempotency_conflict']);
  });

  test('64 sessions send heartbeats while others read', async () => {
    const { register, beat, feed, end, faults, plane } = await host({ url: await url() });
    const all = await Promise.all(Array.from({ length: 64 }, () => register()));
    for (let round = 1; round <= 5; round += 1) {
      plane.clock.pass(14_000);
      const [rows, ...beats] = await Promise.all([
        feed(),
        ...all.map(({ id, secret }) =>
          beat(id, secret, { tokens: { prompt: round, completion: round }, last_event: `round ${round}` }),
        ),
      ]);
      expect(beats.map(({ status }) => status)).toEqual(all.map(() => 200));
      expect(rows).toHaveLength(65);
      await plane.external.sweep();
    }
    const rows = (await feed()).filter(({ kind }) => kind === 'external');
    expect(rows.map((row) => row.tokens_claimed)).toEqual(all.map(() => ({ prompt: 5, completion: 5 })));
    expect(rows.every((row) => row.stale === false)).toBe(true);
    await Promise.all(all.map(({ id, secret }) => end(id, secret)));
    expect(await feed()).toHaveLength(1);
    expect([faults, plane.faults]).toEqual([[], []]);
  });
});

describe('pages of other origins', () => {
  const sqlite = () => host({ url: `sqlite:${join(freshDataDir(), 'lathe.db')}` });

  test('the three need Content-Type application/json, whatever the body', async () => {
    const { url, register } = await sqlite();
    const { id, secret } = await register();
    const paths = [
      '/agent/v1/sessions',
      `/agent/v1/sessions/${id}/heartbeat`,
      `/agent/v1/sessions/${id}/end`,
    ];
    const types = [undefined, 'text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'];
    for (const path of paths)
      for (const type of [...types, 'application/jsonp', 'application/merge-patch+json'])
        for (const body of ['', '{"harness":"h","outcome":"completed"}']) {
          const headers = { 'x-svc-session-secret': secret, ...(type ? { 'content-type': type } : {}) };
          const bytes = new TextEncoder().encode(body);
          const answer = await fetch(url + path, { method: 'POST', headers, body: bytes });
          expect([path, type, answer.status]).toEqual([path, type, 415]);
        }
    const charset = { 'content-type': 'application/json; charset=utf-8', 'x-svc-session-secret': secret };
    const fine = await fetch(`${url}${paths[1]}`, { method: 'POST', headers: charset });
    expect(fine.status).toBe(200);
  });

  test('a preflight is answered as any other unknown method, and nothing allows an origin', async () => {
    const { url, send } = await sqlite();
    const headers = {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    };
    const preflight = await fetch(`${url}/agent/v1/sessions`, { method: 'OPTIONS', headers });
    expect(preflight.status).toBe(405);
    const posted = await send('POST', '/agent/v1/sessions', { harness: 'h' }, { origin: headers.origin });
    for (const answer of [preflight, posted, await send('GET', '/agent/v1/sessions', undefined, headers)])
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});
