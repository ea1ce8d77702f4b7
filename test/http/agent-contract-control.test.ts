import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ContractHost, model, refusal, startContractHost } from '../support/contract-host.ts';

// Section 4.5 of the interface, section 5.1 on loopback, and what is true of every route of the agent and control planes.
// A bind beyond loopback: test/http/access.test.ts, 'the product, listening beyond loopback', over every route of the
// document. The window of the served turns: test/unit/served-turns.test.ts.

let at: ContractHost;
let operations: { method: string; path: string; json: boolean; optional: boolean }[];
beforeAll(async () => {
  at = await startContractHost({ flags: ['--enable-all-workflows'] });
  const document = (await (await fetch(`${at.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>;
  };
  operations = Object.entries(document.paths)
    .filter(([path]) => /^\/(?:agent|host)\//.test(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { requestBody }]) => ({
        method: method.toUpperCase(),
        path: path.replaceAll(/\{\w+\}/g, 'x1'),
        json: requestBody?.content['application/json'] !== undefined,
        optional: requestBody?.required !== true,
      })),
    );
});
afterAll(() => at?.end());

interface Operation {
  readonly requestBody?: { readonly required?: boolean; readonly content: Record<string, unknown> };
}

describe('the control plane', () => {
  test('GET /host/v1/info: 200 SubstrateInfo', async () => {
    const { status, json } = await at.get('/host/v1/info');
    expect(status).toBe(200);
    expect(json).toMatchObject({
      protocol_version: '1.4.0',
      contract_version: '1.4.0',
      model: null,
      adapter: null,
      completions_served: 0,
      capabilities: expect.arrayContaining(['agent', 'host', 'lab']),
      endpoint_id: expect.any(String),
      enforcement_tier: expect.stringMatching(/^(?:path|os_sandbox)$/),
      planner: { kind: expect.any(String), disclosure: expect.stringMatching(/./) },
    });
  });

  test('GET /host/v1/health: 200 with model; GET /health: 200 with the planes; both need no credential', async () => {
    expect((await at.get('/host/v1/health')).json).toMatchObject({ model: '' });
    expect((await at.get('/health')).json).toMatchObject({
      status: 'ok',
      planes: expect.arrayContaining(['agent', 'host', 'lab', 'v1']),
    });
  });

  test('GET /host/v1/telemetry: 200 HostTelemetry; agent turns are served and contribute no tokens, no cost', async () => {
    const telemetry = async () =>
      (await at.get<{ served: Record<string, number> }>('/host/v1/telemetry')).json;
    const before = await telemetry();
    await at.post('/agent/v1/agents', { name: 'talker', instructions: 'Talk.', model });
    await at.post('/agent/v1/tasks', { prompt: 'x', agent: 'talker' });
    const source = `[ensemble]\nname = "one"\n[agents.a]\ninstructions = "x"\nmodel = "${model}"\n[[steps]]\nid = "a"\nagent = "a"\nprompt = "x"\n`;
    expect((await at.post('/agent/v1/workflows', source)).status).toBe(201);
    await at.post('/agent/v1/workflows/one/runs');
    const { tasks = 0, workflow_runs = 0 } = before.served;
    const after = await telemetry();
    expect(after).toEqual({
      ...before,
      served: { ...before.served, tasks: tasks + 1, workflow_runs: workflow_runs + 1 },
    });
    expect(after).toMatchObject({ tokens: { prompt: 0, completion: 0 }, measured_completions: 0 });
    expect(JSON.stringify(after)).not.toMatch(/cost|usd/);
  });

  test.each(['sessions', 'served', 'harnesses'])(
    'GET /host/v1/%s: 401 missing or wrong bearer',
    async (name) => {
      for (const headers of [
        {},
        { authorization: 'Bearer x' },
        { authorization: at.bearer.authorization.slice(7) },
        at.operator,
      ]) {
        const refused = await at.get(`/host/v1/${name}`, headers);
        expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      }
      expect((await at.get(`/host/v1/${name}`, at.bearer)).json).toMatchObject({ contract: 1 });
    },
  );

  test('GET /host/v1/sessions: 200, open store sessions and live turns, newest first; sight only', async () => {
    const live = await at.open('POST', '/agent/v1/tasks', {
      body: { prompt: '#hold-seen', agent: 'talker' },
    });
    const { json } = await at.get<{ sessions: object[]; turns: object[] }>('/host/v1/sessions', at.bearer);
    const id = live.headers.get('x-svc-session');
    expect(json).toMatchObject({ contract: 1, endpoint_id: expect.any(String) });
    expect(json.sessions).toEqual([expect.objectContaining({ id, kind: 'task', revoked: false })]);
    expect(json.turns).toMatchObject([
      { kind: 'task', state: 'running', session_id: id },
      { kind: 'run', state: 'completed', name: 'one' },
      { kind: 'task', state: 'completed', name: 'talker' },
    ]);
    at.release('seen');
    await live.rest();
    expect((await at.post('/host/v1/sessions', {}, at.bearer)).status).toBe(405);
  });

  test('GET /host/v1/served: 200 capability descriptor, all members required; never the token', async () => {
    const { json, text } = await at.get('/host/v1/served', at.bearer);
    expect(json).toEqual({
      contract: 1,
      endpoint_id: expect.any(String),
      sessions_plane: true,
      bind: 'loopback',
      verbs: expect.arrayContaining(['cancel', 'pause', 'resume', 'run-now', 'revoke']),
      operator_credential: true,
      control_port: Number(new URL(at.control).port),
      offering: { models: [] },
    });
    expect(text).not.toContain(at.operator['x-svc-operator']);
  });

  test('GET /host/v1/peers: on the control socket, operator-gated; name, mint time and a revoked bit, never the token', async () => {
    expect((await at.get('/host/v1/peers', at.operator)).status).toBe(404);
    for (const headers of [{}, at.bearer, { 'x-svc-operator': 'x' }])
      expect((await at.controlled('GET', '/host/v1/peers', { headers })).status).toBe(401);
    const headers = at.operator;
    const minted = await at.controlled<{ token: string; minted_at: string }>('POST', '/host/v1/peers', {
      headers,
      body: { name: 'ann' },
    });
    expect(minted.status).toBe(201);
    const { token, minted_at } = minted.json;
    // A peer's token is as good as the bearer, until it is revoked.
    const asPeer = () => at.get('/host/v1/served', { authorization: `Bearer ${token}` });
    expect((await asPeer()).status).toBe(200);
    const again = await at.controlled('POST', '/host/v1/peers', { headers, body: { name: 'ann' } });
    expect(again.status).toBe(409);
    expect((await at.controlled('POST', '/host/v1/peers', { headers, body: { name: 'A b' } })).status).toBe(
      400,
    );
    expect((await at.controlled('DELETE', '/host/v1/peers/ann', { headers })).json).toEqual({
      name: 'ann',
      revoked: true,
    });
    expect((await at.controlled('DELETE', '/host/v1/peers/bob', { headers })).status).toBe(404);
    expect((await asPeer()).status).toBe(401);
    const roster = await at.controlled('GET', '/host/v1/peers', { headers });
    expect(roster.json).toEqual({
      contract: 1,
      peers: [{ name: 'ann', minted_at, revoked: true, scope: null, expires_at: null }],
    });
    expect((await at.controlled('GET', '/metrics')).status).toBe(200);
    expect((await at.controlled('GET', '/agent/v1/agents')).status).toBe(404);
  });
});

describe('every route', () => {
  test('another method: 405 whose Allow names what applies, without a CORS allowance, also for a preflight', async () => {
    const paths = Map.groupBy(operations, ({ path }) => path);
    for (const [path, known] of paths) {
      const allowed = known.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
      for (const method of ['OPTIONS', 'PATCH', 'PUT', 'DELETE', 'POST', 'GET'].filter(
        (one) => !allowed.includes(one),
      )) {
        const headers = { origin: 'https://evil.test', 'access-control-request-method': 'POST' };
        const answer = await at.call(method, path, { headers });
        const allowedMethods = answer.headers.get('allow')?.split(', ').toSorted();
        // Beside a written segment, a name may stand in its place.
        if (answer.status === 405)
          expect([method, path, allowedMethods]).toEqual([method, path, allowed.toSorted()]);
        expect([method, path, answer.status < 400]).toEqual([method, path, false]);
      }
    }
  });

  test('HEAD answers like GET, without the body', async () => {
    for (const { path } of operations.filter(({ method }) => method === 'GET')) {
      const got = await at.open('GET', path, { headers: at.bearer });
      // Streams of events have no end.
      if (/^\/(?:agent|host)\/v1\/events$/.test(path)) expect(got.status).toBe(200);
      else await got.rest();
      const head = await at.call('HEAD', path, { headers: at.bearer });
      expect([path, head.status]).toEqual([path, got.status]);
    }
  });

  test('a JSON body: 415 as another type, 413 when it is announced as too large, before it is sent', async () => {
    for (const { method, path } of operations.filter(
      ({ json, path: of }) => json && !of.endsWith('/x1/runs'),
    )) {
      const secret = { 'x-svc-session-secret': 'x' };
      const other = await at.call(method, path, { body: 'x', headers: secret });
      expect([path, ...refusal(other)]).toEqual([path, 415, 'unsupported_media_type']);
      const announced = await announce(method, path);
      // There is no such session, which is looked at before the body.
      expect([path, announced]).toEqual([path, /heartbeat|end$/.test(path) ? 404 : 413]);
    }
  });

  test('what is posted without a body, from a page of another origin: 403', async () => {
    const headers = { origin: 'https://evil.test' };
    for (const { method, path } of operations.filter((one) => one.method === 'POST' && one.optional)) {
      const { status } = await at.call(method, path, { headers });
      // There is no such workflow to run, a heartbeat needs a type that no such page can send, and a session a token.
      const others: Readonly<Record<string, number>> = { runs: 404, heartbeat: 415, session: 401 };
      const other =
        others[/\/(?:x1\/(runs)|(heartbeat)|(session))$/.exec(path)?.slice(1).find(Boolean) ?? ''] ?? 403;
      expect([path, status]).toEqual([path, other]);
    }
  });

  test('an unknown path is a 404 of the one form, with a request id', async () => {
    for (const path of [
      '/agent',
      '/agent/v1',
      '/agent/v1/nothing',
      '/host/v1/nothing',
      '/agent/v1/sessions/',
    ])
      expect(refusal(await at.get(path))).toEqual([404, 'not_found']);
  });

  test('a name that is no text is unknown, and nothing fails on it', async () => {
    for (const { path } of operations.filter(({ method, path: of }) => method === 'GET' && of.includes('x1')))
      for (const name of ['%', '%ff', '%00', '%2F', '..%2F', '%F0%9F%A6%8A', 'x'.repeat(5000)]) {
        const { status } = await at.get(path.replace('x1', name));
        expect([path, name, status]).toEqual([path, name, name.includes('2F') ? status : 404]);
        expect(status).toBeLessThan(500);
      }
  });

  test('the document names the headers that are asked for', async () => {
    const { paths } = (await (await fetch(`${at.url}/openapi.json`)).json()) as {
      paths: Record<string, { post?: { parameters?: { in: string; name: string }[] } }>;
    };
    const named = (path: string) =>
      paths[`/agent/v1/${path}`]?.post?.parameters
        ?.filter((one) => one.in === 'header')
        .map(({ name }) => name);
    expect(named('tasks')).toEqual(['Idempotency-Key']);
    for (const verb of ['heartbeat', 'end'])
      expect(named(`sessions/{id}/${verb}`)).toEqual(['x-svc-session-secret']);
    expect(named('sessions/{id}/revoke')).toEqual(['x-svc-session-secret', 'x-svc-operator']);
  });

  test('a name of this machine that is not ours: 403 before anything else, with a request id', async () => {
    for (const { method, path } of operations) {
      const [status, id] = await foreign(method, path);
      expect([path, status, String(id).startsWith('req_')]).toEqual([path, 403, true]);
    }
  });
});

/** The status of a request that declares a body over the limit and never sends it. */
function announce(method: string, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': String(1 << 30),
      'x-svc-session-secret': 'x',
    };
    const sent = request(at.url + path, { method, headers }, (response) => {
      resolve(response.statusCode ?? 0);
      sent.destroy();
    });
    sent.on('error', reject);
    sent.flushHeaders();
  });
}

function foreign(method: string, path: string): Promise<[number | undefined, unknown]> {
  return new Promise((resolve, reject) => {
    const sent = request(at.url + path, { method, headers: { host: 'evil.test' } }, (response) => {
      response.resume();
      resolve([response.statusCode, response.headers['x-request-id']]);
    });
    sent.on('error', reject);
    sent.end();
  });
}
