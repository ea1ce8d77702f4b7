import { request } from 'node:http';
import { networkInterfaces, hostname } from 'node:os';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Access, type AccessOptions } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { hostEnvelope } from '../../src/http/error.ts';
import { defineRoute, type Plane } from '../../src/http/route.ts';
import { hashSecret } from '../../src/signing/secret.ts';
import { freshDataDir, type HostProcess, startScriptedHost } from '../support/host.ts';

/** A non-loopback address of this machine; a sandbox without network has none. */
const outside = Object.values(networkInterfaces())
  .flatMap((many) => many ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
const reachable = outside ?? '127.0.0.1';

describe('the product, listening beyond loopback', () => {
  let host: HostProcess;
  let url = '';
  let bearer = '';
  let operator = '';
  const dataDir = freshDataDir();
  beforeAll(async () => {
    host = startScriptedHost(['--gpu', '--host', '0.0.0.0', '--port', '0', '--data-dir', dataDir]);
    url = (await host.url()).replace('0.0.0.0', reachable);
    bearer = readFileSync(join(dataDir, 'bearer.token'), 'utf8').trim();
    operator = readFileSync(join(dataDir, 'operator.token'), 'utf8').trim();
  });
  afterAll(() => host.end());
  const authorized = () => ({ authorization: `Bearer ${bearer}` });

  test('its credentials are files of the data directory, for the owner only', () => {
    for (const name of ['bearer.token', 'operator.token'])
      expect(statSync(join(dataDir, name)).mode & 0o777).toBe(0o600);
  });

  test('no documented route answers without the bearer token, except the two liveness routes', async () => {
    const { paths } = (await (await fetch(`${url}/openapi.json`, { headers: authorized() })).json()) as {
      paths: Record<string, Record<string, unknown>>;
    };
    const open: string[] = [];
    const asked: string[] = [];
    for (const [path, operations] of Object.entries(paths)) {
      const concrete = path.replaceAll(/\{\w+\}/g, 'x1');
      const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options'];
      for (const method of new Set([...Object.keys(operations), ...methods])) {
        const answer = await fetch(url + concrete, { method: method.toUpperCase() });
        const text = await answer.text();
        asked.push(path);
        if (answer.status !== 401) open.push(`${method} ${path}`);
        else {
          expect(answer.headers.get('www-authenticate')).toBe('Bearer');
          expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
          expect(answer.headers.get('allow')).toBeNull();
          expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
          if (method !== 'head') expect(text).toContain('Authorization: Bearer');
        }
      }
    }
    expect(asked.length).toBeGreaterThan(200);
    expect(open.sort()).toEqual(
      ['/health', '/host/v1/health'].flatMap((path) => [`get ${path}`, `head ${path}`]).sort(),
    );
  });

  test('nothing else answers either, and no response discloses what exists', async () => {
    const missing = await (await fetch(`${url}/host/v1/info`)).text();
    for (const path of [
      '/host/v1/nothing',
      '/host',
      '/host/v1/health/',
      '/host/v1/HEALTH',
      '/host//v1/health',
    ]) {
      const answer = await fetch(url + path);
      expect([path, answer.status, await answer.text()]).toEqual([path, 401, missing]);
    }
    for (const path of ['/', '/nothing', '/docs', '/openapi.json', '/favicon.ico', '/health/x', '/Health'])
      expect([path, (await fetch(url + path)).status]).toEqual([path, 401]);
    expect((await fetch(`${url}/host/v1/nothing`, { headers: authorized() })).status).toBe(404);
    expect((await fetch(`${url}/host/v1/info`, { method: 'PUT', headers: authorized() })).status).toBe(405);
  });

  test('with the bearer token everything is as on loopback; other credentials are refused', async () => {
    const info = (headers: Record<string, string>) => fetch(`${url}/host/v1/info`, { headers });
    expect((await info(authorized())).status).toBe(200);
    expect((await info({ authorization: `bearer  ${bearer} ` })).status).toBe(200);
    // Anthropic's clients send their key here.
    expect((await info({ 'x-api-key': bearer })).status).toBe(200);
    expect((await info({ 'x-api-key': bearer, authorization: 'Bearer other' })).status).toBe(200);
    const refused = [
      { authorization: bearer },
      { authorization: `Basic ${bearer}` },
      { authorization: `Bearer ${bearer}x` },
      { authorization: `Bearer ${bearer.slice(0, -1)}` },
      { authorization: `Bearer ${bearer.toUpperCase()}` },
      { authorization: `Bearer ${bearer} ${bearer}` },
      { authorization: `Bearer ${operator}` },
      { authorization: `Bearer ${hashSecret(bearer)}` },
      { authorization: 'Bearer' },
      { 'x-api-key': operator },
      { 'x-svc-operator': operator },
      { 'x-svc-session-secret': bearer },
      { cookie: `bearer=${bearer}` },
    ];
    const texts = new Set<string>();
    for (const headers of refused) {
      const answer = await info(headers);
      const text = await answer.text();
      expect([headers, answer.status]).toEqual([headers, 401]);
      for (const secret of [bearer, operator]) expect(text).not.toContain(secret);
      texts.add(text);
    }
    expect(texts.size).toBe(1);
    expect((await fetch(`${url}/host/v1/info?access_token=${bearer}`)).status).toBe(401);
  });

  test('every wire refuses in its own format', async () => {
    const shapes = {
      '/v1/models': { error: { type: 'invalid_request_error', code: 'unauthorized', param: null } },
      '/v1/messages': { type: 'error', error: { type: 'authentication_error' } },
      '/api/tags': { error: expect.stringContaining('bearer') },
      '/props': { error: { code: 401, type: 'authentication_error' } },
      '/lab/v1/graph': { error: { code: 'unauthorized' } },
    };
    for (const [path, shape] of Object.entries(shapes)) {
      const answer = await fetch(url + path, { method: path.endsWith('messages') ? 'POST' : 'GET' });
      expect([path, answer.status, await answer.json()]).toMatchObject([path, 401, shape]);
    }
  });

  test('the body of a refused request is not read', async () => {
    // The body never arrives: a host that waited for it would never answer.
    const status = await new Promise<number>((resolve, reject) => {
      const call = request(
        `${url}/v1/chat/completions`,
        { method: 'POST', headers: { 'content-type': 'application/json', 'content-length': '1000' } },
        (answer) => {
          resolve(answer.statusCode ?? 0);
          call.destroy();
        },
      );
      call.on('error', reject);
      call.flushHeaders();
    });
    expect(status).toBe(401);
  });

  test('a wrong operator credential is refused everywhere, even with the bearer token; an absent one is not', async () => {
    for (const [method, path] of [
      ['GET', '/health'],
      ['GET', '/host/v1/health'],
      ['GET', '/v1/models'],
      ['POST', '/v1/chat/completions'],
      ['GET', '/agent/v1/tasks/t1'],
      ['GET', '/host/v1/sessions'],
      ['POST', '/observe/v1/query'],
      ['GET', '/recorder/v1/racks'],
      ['GET', '/openapi.json'],
      ['GET', '/no/such/route'],
      ['DELETE', '/health'],
      ['GET', '/gateway/v1/catalog'],
      ['POST', '/host/v1/session'],
      ['POST', '/agent/v1/sessions/s00000000-1/revoke'],
    ] as const)
      for (const wrong of ['wrong', '', bearer, `${operator}x`]) {
        const headers = { ...authorized(), 'x-svc-operator': wrong };
        const answer = await fetch(url + path, { method, headers });
        const text = await answer.text();
        expect([method, path, wrong, answer.status]).toEqual([method, path, wrong, 401]);
        expect(text).toContain('x-svc-operator');
        expect(text).not.toContain(operator);
      }
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect((await fetch(`${url}/v1/models`, { headers: authorized() })).status).toBe(200);
    const right = { ...authorized(), 'x-svc-operator': operator };
    expect((await fetch(`${url}/v1/models`, { headers: right })).status).toBe(200);
  });

  test('the liveness routes disclose the model and the planes, behind the Host-header guard', async () => {
    const health = (await (await fetch(`${url}/health`)).json()) as object;
    expect(Object.keys(health).sort()).toEqual(['planes', 'status']);
    const model = (await (await fetch(`${url}/host/v1/health`)).json()) as object;
    expect(Object.keys(model).sort()).toEqual(['model', 'status']);
    for (const name of ['evil.example', `${reachable}.evil.example`])
      expect([name, await statusAt(url, '/health', { host: name })]).toEqual([name, 403]);
    for (const name of [reachable, `${reachable}:1`, hostname(), 'localhost', '127.0.0.1', '[::1]'])
      expect([name, await statusAt(url, '/health', { host: name })]).toEqual([name, 200]);
  });

  test('its output contains no credential', () => {
    for (const secret of [bearer, operator])
      expect(host.output.stdout + host.output.stderr).not.toContain(secret);
  });
});

test('without a token in bearer.token every request is refused, except on the liveness routes', async () => {
  const { writeFileSync } = await import('node:fs');
  const dataDir = freshDataDir();
  writeFileSync(join(dataDir, 'bearer.token'), '');
  const host = startScriptedHost(['--host', '0.0.0.0', '--port', '0', '--data-dir', dataDir]);
  try {
    const url = (await host.url()).replace('0.0.0.0', reachable);
    expect(host.output.stderr).toContain('bearer.token is empty');
    for (const authorization of ['Bearer ', 'Bearer undefined', `Bearer ${hashSecret('')}`])
      expect((await fetch(`${url}/host/v1/info`, { headers: { authorization } })).status).toBe(401);
    expect((await fetch(`${url}/host/v1/info`, { headers: { 'x-api-key': '' } })).status).toBe(401);
    expect((await fetch(`${url}/health`)).status).toBe(200);
  } finally {
    await host.end();
  }
});

const bearer = 'the-bearer-of-this-test';
const operator = 'the-operator-of-this-test';
const asked = z.object({ by: z.string(), local: z.boolean() }).meta({ id: 'Asked' });
const plane: Plane = {
  name: 'one',
  summary: 'Says who asks.',
  prefixes: ['/one'],
  envelope: hostEnvelope,
  errorSchema: hostError,
  routes: (['open', 'bearer', 'operator'] as const).map((name) =>
    defineRoute({
      method: 'POST',
      path: `/one/${name}`,
      operationId: name,
      summary: '',
      ...(name === 'open' ? {} : { gate: name }),
      body: z.object({}).meta({ id: 'Nothing' }),
      responses: { 200: { description: '', content: { 'application/json': asked } } },
      handle: ({ by, isLocal: local }) => Response.json({ by, local }),
    }),
  ),
};
const gated: Plane = {
  ...plane,
  name: 'two',
  gate: 'bearer',
  routes: plane.routes.slice(0, 1).map((route) => ({ ...route, path: '/two', operationId: 'two' })),
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
async function serve(bind: AccessOptions['bind'], more: Partial<AccessOptions> = {}) {
  const access = new Access({
    bind,
    bearerHash: hashSecret(bearer),
    operatorHash: hashSecret(operator),
    ...more,
  });
  const app = createApp({
    planes: [plane, gated],
    access,
    stopSignal: new AbortController().signal,
    onFault: () => undefined,
  });
  const address = bind === 'lan' ? '0.0.0.0' : '127.0.0.1';
  const listener = await listen(app, hostGuard(address, []), { host: address, port: 0 });
  closing.push(async () => {
    listener.destroyConnections();
    await listener.close();
  });
  return (path: string, headers: Record<string, string> = {}, from = '127.0.0.1') =>
    fetch(`http://${from}:${listener.port}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: '{}',
    });
}
const withBearer = { authorization: `Bearer ${bearer}` };
const withOperator = { 'x-svc-operator': operator };
const ann = { name: 'ann', scope: null };

describe('on loopback', () => {
  test('an open route is open, and keys are ignored; only the operator is identified', async () => {
    const post = await serve('loopback');
    for (const headers of [{}, withBearer, { authorization: 'Bearer any' }])
      expect(await (await post('/one/open', headers)).json()).toEqual({
        by: 'local',
        local: true,
      });
    expect(await (await post('/one/open', withOperator)).json()).toEqual({ by: 'operator', local: true });
  });

  test('a wrong operator credential is refused, even where none is required', async () => {
    const post = await serve('loopback');
    for (const path of ['/one/open', '/one/bearer', '/one/operator', '/two', '/none'])
      for (const wrong of ['wrong', '', bearer]) {
        const answer = await post(path, { ...withBearer, 'x-svc-operator': wrong });
        expect([path, answer.status]).toEqual([path, 401]);
        expect(await answer.text()).toContain('x-svc-operator');
      }
    const none = await serve('loopback', { operatorHash: undefined });
    expect((await none('/one/open', withOperator)).status).toBe(401);
    expect((await none('/one/open')).status).toBe(200);
  });

  test('a gated route, or a route of a gated plane, requires the bearer token', async () => {
    const post = await serve('loopback');
    for (const path of ['/one/bearer', '/two']) {
      for (const headers of [{}, { authorization: 'Bearer wrong' }, { 'x-api-key': bearer }, withOperator]) {
        const answer = await post(path, headers);
        expect(answer.status).toBe(401);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
      expect(await (await post(path, withBearer)).json()).toEqual({ by: 'bearer', local: true });
      const both = await post(path, { ...withBearer, ...withOperator });
      expect(await both.json()).toEqual({ by: 'operator', local: true });
    }
    const none = await serve('loopback', { bearerHash: undefined });
    expect((await none('/two', withBearer)).status).toBe(401);
  });

  test("an operator route requires the operator's credential and accepts nothing else", async () => {
    const post = await serve('loopback', { findPeer: () => Promise.resolve(ann) });
    for (const headers of [
      {},
      withBearer,
      { 'x-svc-operator': bearer },
      { authorization: `Bearer ${operator}` },
    ]) {
      const answer = await post('/one/operator', headers);
      const text = await answer.text();
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBeNull();
      expect(text).toContain('x-svc-operator');
      expect(text).not.toContain(operator);
    }
    expect(await (await post('/one/operator', withOperator)).json()).toEqual({ by: 'operator', local: true });
    const none = await serve('loopback', { operatorHash: undefined });
    expect((await none('/one/operator', withOperator)).status).toBe(401);
  });

  test('a gate is checked before the body', async () => {
    const post = await serve('loopback');
    expect((await post('/one/bearer', { 'content-type': 'text/plain' })).status).toBe(401);
    expect((await post('/one/bearer', { ...withBearer, 'content-type': 'text/plain' })).status).toBe(415);
  });
});

describe('beyond loopback', () => {
  test('the bearer token identifies the caller; the operator is only accepted from this machine, in addition to it', async () => {
    const post = await serve('lan');
    expect((await post('/one/open', withOperator)).status).toBe(401);
    expect(await (await post('/one/open', withBearer)).json()).toEqual({ by: 'bearer', local: true });
    const both = { ...withBearer, ...withOperator };
    expect(await (await post('/one/operator', both)).json()).toEqual({ by: 'operator', local: true });
    if (outside === undefined) return;
    expect(await (await post('/one/open', both, outside)).json()).toEqual({ by: 'bearer', local: false });
    expect((await post('/one/operator', both, outside)).status).toBe(401);
  });

  test("a peer's token is accepted like the bearer token until it is revoked, but never as the operator's", async () => {
    const live = new Map([['token-of-ann', ann]]);
    const post = await serve('lan', { findPeer: (token) => Promise.resolve(live.get(token)) });
    const asAnn = { authorization: 'Bearer token-of-ann' };
    for (const path of ['/one/open', '/one/bearer', '/two'])
      expect(await (await post(path, asAnn)).json()).toMatchObject({ by: 'peer:ann' });
    expect((await post('/one/open', { 'x-api-key': 'token-of-ann' })).status).toBe(200);
    expect((await post('/one/operator', asAnn)).status).toBe(401);
    expect((await post('/one/open', { authorization: 'Bearer token-of-bob' })).status).toBe(401);
    live.clear();
    expect((await post('/one/open', asAnn)).status).toBe(401);
  });

  test('a route without declared scopes refuses scoped tokens; the operator and the bearer token have no scope', async () => {
    const scoped = { ...ann, scope: ['read', 'infer', 'agent', 'approve'] as const };
    for (const bind of ['lan', 'loopback'] as const) {
      const post = await serve(bind, { findPeer: () => Promise.resolve(scoped) });
      const asAnn = { authorization: 'Bearer token-of-ann' };
      const answer = await post('/two', asAnn);
      expect([answer.status, await answer.json()]).toEqual([
        403,
        { error: { code: 'insufficient_scope', message: expect.stringContaining('without a scope') } },
      ]);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer error="insufficient_scope"');
      expect((await post('/two', withBearer)).status).toBe(200);
      expect(await (await post('/one/operator', { ...asAnn, ...withOperator })).json()).toMatchObject({
        by: 'operator',
      });
    }
  });

  test('an expired token is refused as expired, and only where a token is required', async () => {
    const expired = { ...ann, expired: '2030-01-01T00:00:00.000Z' };
    const post = await serve('lan', { findPeer: () => Promise.resolve(expired) });
    const answer = await post('/one/open', { authorization: 'Bearer token-of-ann' });
    expect([answer.status, await answer.json()]).toMatchObject([
      401,
      { error: { code: 'peer_token_expired', message: expect.stringContaining('2030-01-01T00:00:00.000Z') } },
    ]);
    expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer error="invalid_token"/);
    // A valid token is accepted in either header.
    const both = { authorization: 'Bearer token-of-ann', 'x-api-key': bearer };
    expect((await post('/one/open', both)).status).toBe(200);
    const open = await serve('loopback', { findPeer: () => Promise.resolve(expired) });
    expect((await open('/one/open', { authorization: 'Bearer token-of-ann' })).status).toBe(200);
    expect((await open('/two', { authorization: 'Bearer token-of-ann' })).status).toBe(401);
  });

  test('without a configured bearer token even peers are refused, and so are they with a failing database', async () => {
    const closed = await serve('lan', { bearerHash: undefined, findPeer: () => Promise.resolve(ann) });
    expect((await closed('/one/open', { authorization: 'Bearer t' })).status).toBe(401);
    const broken = await serve('lan', { findPeer: () => Promise.reject(new Error('secret detail')) });
    const answer = await broken('/one/open', { authorization: 'Bearer t' });
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain('secret detail');
    expect((await broken('/one/open', withBearer)).status).toBe(200);
  });
});

/** `fetch` does not send a custom Host header. */
function statusAt(url: string, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(url + path, { headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    call.on('error', reject);
    call.end();
  });
}
