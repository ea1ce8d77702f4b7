import { DatabaseSync } from 'node:sqlite';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Act } from '../../src/agent/shapes/act.ts';
import type { Session } from '../../src/agent/shapes/session.ts';
import type { RunDetail, RunEvent } from '../../src/agent/shapes/run.ts';
import type { TurnEvent } from '../../src/agent/shapes/turn-event.ts';
import type { WorkReceipt } from '../../src/agent/shapes/receipt.ts';
import {
  type ContractHost,
  model,
  refusal,
  errorMessageOf,
  startContractHost,
} from '../support/contract-host.ts';
import { workflow } from '../support/workflows.ts';

// The sessions, receipts and revoking of section 4.3 of the interface, with the members of its section 2.3 and the
// limits of its section 8.

const says = { look: [{ calls: [{ name: 'observe_health', arguments: {} }] }, { text: 'All is well.' }] };
const talker = { name: 'talker', instructions: 'Talk.', model, grants: { tools: ['observe_health'] } };
let at: ContractHost;
beforeAll(async () => {
  at = await startContractHost({ flags: ['--enable-all-workflows'], says });
  await at.post('/agent/v1/agents', talker);
});
afterAll(() => at?.end());

const base = '/agent/v1/sessions';
interface Registered {
  readonly id: string;
  readonly secret: string;
  readonly heartbeat_secs: number;
}
const register = async (body: object = { harness: 'make' }) => (await at.post<Registered>(base, body)).json;
const withSecret = (secret?: string): Record<string, string> =>
  secret === undefined ? {} : { 'x-svc-session-secret': secret };
const beat = (id: string, secret?: string, body: unknown = {}) =>
  at.post<{ deadline_at: string }>(`${base}/${id}/heartbeat`, body, withSecret(secret));
const end = (id: string, secret?: string, body: unknown = { outcome: 'completed' }) =>
  at.post(`${base}/${id}/end`, body, withSecret(secret));
const receipt = (id: string) => at.get<WorkReceipt>(`${base}/${id}/receipt`);
const rows = async () => (await at.get<{ sessions: Session[] }>(base)).json.sessions;
const row = async (id: string) => (await rows()).find((one) => one.id === id);
const acts = async () => (await at.get<{ acts: Act[] }>('/agent/v1/acts?limit=1000')).json.acts;
const task = (prompt: string) =>
  at.open<TurnEvent[]>('POST', '/agent/v1/tasks', { body: { prompt, agent: 'talker' } });

describe('POST /agent/v1/sessions', () => {
  test('201 {id, secret, heartbeat_secs}; the secret is returned once and never readable back', async () => {
    const made = await at.post<Registered>(base, {
      harness: 'cargo',
      client: 'ann',
      title: 'Build',
      cwd: '/src',
      pid: 7,
      labels: { a: 'b' },
      more: 1,
    });
    expect(made.status).toBe(201);
    const { id, secret } = made.json;
    expect(made.json).toEqual({ id, secret, heartbeat_secs: 15 });
    expect(id).toMatch(/^x\d{19}[0-9a-f]{8}$/);
    expect(await row(id)).toMatchObject({
      kind: 'external',
      title: 'Build',
      state: 'running',
      harness: 'cargo',
      client: 'ann',
      cwd: '/src',
      cancellable: false,
      stale: false,
    });
    expect((await at.post(`${base}/${id}/cancel`)).status).toBe(409);
    expect((await at.post(`/agent/v1/runs/${id}/pause`)).status).toBe(409);
    await end(id, secret);
    for (const path of [base, '/agent/v1/acts', `${base}/${id}/receipt`])
      expect((await at.get(path)).text).not.toContain(secret);
    for (const name of readdirSync(at.dataDir).filter((file) => /\.db|sqlite/.test(file)))
      if (name.endsWith('db')) expect(everything(join(at.dataDir, name))).not.toContain(secret);
    expect(at.host.output.stdout + at.host.output.stderr).not.toContain(secret);
  });

  test('400 invalid: refused whole with all errors at once', async () => {
    const before = (await rows()).length;
    const wrong = { harness: '', client: 5, pid: 0, labels: { '': 1 }, title: 'x'.repeat(201) };
    const bad = await at.post(base, wrong);
    expect(bad.status).toBe(400);
    const { violations } = (bad.json as { error: { violations: { path: string }[] } }).error;
    expect(new Set(violations.map(({ path }) => path.split('.')[0]))).toEqual(new Set(Object.keys(wrong)));
    for (const body of [[], null, {}]) expect((await at.post(base, body)).status).toBe(400);
    expect((await rows()).length).toBe(before);
  });

  test('application/json REQUIRED, also for heartbeat and end, with and without a body', async () => {
    const { id, secret } = await register();
    for (const path of [base, `${base}/${id}/heartbeat`, `${base}/${id}/end`])
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp'])
        for (const body of ['', '{"harness":"x","outcome":"failed"}'])
          expect((await at.post(path, body, { 'content-type': type, ...withSecret(secret) })).status).toBe(
            415,
          );
    expect((await row(id))?.state).toBe('running');
    await end(id, secret);
  });

  test('429 external registry cap reached: 64, and an end makes room', async () => {
    const held = await Promise.all(Array.from({ length: 64 }, () => register()));
    const over = await at.post(base, { harness: 'x' });
    expect([over.status, over.headers.get('retry-after')]).toEqual([429, '5']);
    const [first] = held;
    await end(first?.id ?? '', first?.secret);
    const again = await at.post<Registered>(base, { harness: 'x' });
    expect(again.status).toBe(201);
    await Promise.all([...held.slice(1), again.json].map(({ id, secret }) => end(id, secret)));
    expect((await rows()).filter(({ kind }) => kind === 'external')).toEqual([]);
  });
});

describe('POST {id}/heartbeat', () => {
  test('200 deadline renewed; waiting or running; claims are folded into tokens_claimed only', async () => {
    const { id, secret } = await register();
    const claims = {
      status: 'waiting',
      tokens: { prompt: 5, completion: 2 },
      last_event: 'x'.repeat(200),
      more: 1,
    };
    const renewed = await beat(id, secret, claims);
    expect(renewed.status).toBe(200);
    expect(Date.parse(renewed.json.deadline_at)).toBeGreaterThan(Date.now());
    expect(await row(id)).toMatchObject({
      state: 'waiting',
      tokens_claimed: claims.tokens,
      last_event: claims.last_event,
    });
    expect((await row(id))?.tokens).toBeUndefined();
    expect((await beat(id, secret, { status: 'running' })).status).toBe(200);
    expect(await row(id)).toMatchObject({ state: 'running', tokens_claimed: claims.tokens });
    expect(
      (
        await at.call('POST', `${base}/${id}/heartbeat`, {
          headers: { 'content-type': 'application/json', ...withSecret(secret) },
        })
      ).status,
    ).toBe(200);
    for (const body of [
      { status: 'completed' },
      { tokens: { prompt: 1 } },
      { tokens: { prompt: -1, completion: 0.5 } },
      [],
      { last_event: 'x'.repeat(201) },
    ])
      expect((await beat(id, secret, body)).status).toBe(400);
    await end(id, secret);
  });

  test('401 missing or wrong secret; 404 unknown or closed; 409 not an external (x) id', async () => {
    const { id, secret } = await register();
    const other = await register();
    for (const given of [undefined, '', 'wrong', other.secret]) {
      const refused = await beat(id, given);
      expect(refused.status).toBe(401);
      expect(errorMessageOf(refused)).toContain('x-svc-session-secret');
      expect(refused.text).not.toContain(secret);
    }
    expect((await beat('x1', secret)).status).toBe(404);
    for (const wrong of ['t1', 'r1', 'host', 's00000000-1'])
      expect((await beat(wrong, secret)).status).toBe(409);
    await end(id, secret);
    expect((await beat(id, secret)).status).toBe(404);
    await end(other.id, other.secret);
  });
});

describe('POST {id}/end', () => {
  test.each(['completed', 'failed', 'cancelled'])('200 ended and journaled: %s', async (outcome) => {
    const { id, secret } = await register({ harness: 'make', cwd: '/src' });
    await beat(id, secret, { tokens: { prompt: 3, completion: 1 } });
    expect((await receipt(id)).status).toBe(404);
    const ended = await end(id, secret, { outcome, exit_code: 2, summary: 's'.repeat(500), more: 1 });
    expect([ended.status, ended.json]).toEqual([200, { id, ended: true }]);
    expect(await row(id)).toBeUndefined();
    const { status, json } = await receipt(id);
    expect(status).toBe(200);
    expect(json).toMatchObject({
      contract: 1,
      id,
      kind: 'external',
      outcome,
      harness: 'make',
      cwd: '/src',
      exit_code: 2,
      summary: 's'.repeat(500),
      tokens_claimed: { prompt: 3, completion: 1 },
      close_reason: 'ended',
    });
    expect(json.tokens).toBeUndefined();
  });

  test('401; 404 unknown; 400 invalid, and it goes on', async () => {
    const { id, secret } = await register();
    for (const given of [undefined, 'wrong']) expect((await end(id, given)).status).toBe(401);
    for (const wrong of ['x1', 't1', 'r1']) expect((await end(wrong, secret)).status).toBe(404);
    for (const body of [
      {},
      { outcome: 'done' },
      { outcome: 'failed', exit_code: 1.5 },
      [],
      { outcome: 'failed', summary: 's'.repeat(501) },
    ])
      expect((await end(id, secret, body)).status).toBe(400);
    expect((await row(id))?.state).toBe('running');
    expect((await end(id, secret)).status).toBe(200);
    expect((await end(id, secret)).status).toBe(404);
  });
});

describe('GET /agent/v1/sessions', () => {
  test('200: live tasks and runs newest first, external, the host row, then the journal, newest first', async () => {
    const source = workflow({
      name: 'held',
      rest: `model = "${model}"\n`,
      steps: '[[steps]]\nid = "a"\nagent = "worker"\nprompt = "#hold-feed"',
    });
    await at.post('/agent/v1/workflows', source);
    await (await task('first')).rest();
    await (await task('second')).rest();
    const one = await task('#hold-feed');
    const run = await at.open<RunEvent[]>('POST', '/agent/v1/workflows/held/runs', { body: {} });
    const two = await task('#hold-feed too');
    const external = await register();
    const shown = await rows();
    expect(shown.map(({ kind, state, title }) => `${kind} ${state} ${title}`).slice(0, 7)).toEqual([
      'task running #hold-feed too',
      'run running held',
      'task running #hold-feed',
      'external running make',
      'host running this host',
      'task completed second',
      'task completed first',
    ]);
    expect(shown.find(({ kind }) => kind === 'host')).toMatchObject({ id: 'host', cancellable: false });
    at.release('feed');
    const [started] = (await run.rest()).json;
    await Promise.all([one.rest(), two.rest(), end(external.id, external.secret)]);
    const over = await rows();
    expect(over.slice(0, 4).map(({ kind, title }) => `${kind} ${title}`)).toEqual([
      'host this host',
      'task #hold-feed too',
      'run held',
      'task #hold-feed',
    ]);
    // Measured tokens and the route of what has ended.
    for (const { kind, tokens, route } of over.slice(1, 4))
      expect([kind, tokens?.prompt, route]).toEqual([kind, 10, { engine: 'gateway', model }]);
    expect(over[2]?.id).toBe(started?.type === 'run_start' ? started.run_id : '');
    expect((await at.get<{ sessions: Session[] }>(`${base}?limit=1`)).json.sessions).toEqual(
      over.slice(0, 2),
    );
    expect((await at.get(`${base}?limit=x`)).status).toBe(400);
  });

  test('GET {id}/receipt: 404 not ended or never journaled', async () => {
    for (const id of ['t999', 'r1', 'x1', 'host', 'nobody']) expect((await receipt(id)).status).toBe(404);
  });
});

describe('POST {id}/revoke', () => {
  const revoke = (id: string, headers: Record<string, string>) =>
    at.post(`${base}/${id}/revoke`, undefined, headers);
  const credentials = (headers: Headers) => ({
    id: headers.get('x-svc-session') ?? '',
    capability: headers.get('x-svc-session-secret') ?? '',
  });

  test('200 ControlAct by its own capability or the operator; again it is applied again; the denial is logged', async () => {
    const live = await task('#hold-revoked #look');
    const { id, capability } = credentials(live.headers);
    const by = `session:${id}`;
    const applied = { verb: 'revoke', target: id, outcome: 'applied' };
    expect((await revoke(id, withSecret(capability))).json).toEqual({ ...applied, by });
    expect((await revoke(id, at.operator)).json).toEqual({ ...applied, by: 'operator' });
    // Nothing more is done: the task ends, although its model still answers. History stays readable.
    const lines = (await live.rest()).json;
    expect(lines.find(({ type }) => type === 'tool_call')).toBeUndefined();
    expect(lines.at(-1)).toMatchObject({ type: 'aborted', reason: 'cancelled' });
    expect((await rows()).find(({ title }) => title === '#hold-revoked #look')).toMatchObject({
      state: 'cancelled',
    });
    at.release('revoked');
    const logged = (await acts()).filter(({ verb, target }) => verb === 'revoke' && target === id);
    expect(logged.map(({ by: who, outcome }) => [who, outcome])).toEqual([
      [by, 'applied'],
      ['operator', 'applied'],
    ]);
  });

  test("401 missing or wrong credential, or another session's capability (same refusal); 404 unknown or observe-shaped id", async () => {
    const [one, two] = [await task('one'), await task('two')];
    await Promise.all([one.rest(), two.rest()]);
    const { id } = credentials(one.headers);
    const { capability } = credentials(two.headers);
    const headers = [
      {},
      withSecret('wrong'),
      withSecret(capability),
      { 'x-svc-operator': 'wrong' },
      at.bearer,
    ];
    const refusals = await Promise.all(headers.map((header) => revoke(id, header)));
    expect(new Set(refusals.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    const [first] = refusals;
    expect(first?.status).toBe(401);
    for (const word of ['x-svc-session-secret', 'x-svc-operator']) expect(first?.text).toContain(word);
    for (const secret of [capability, ...Object.values(at.operator)])
      expect(first?.text).not.toContain(secret);
    for (const other of ['s00000000-1', 't1', 'r1', 'x1', 'host', 'nobody'])
      expect((await revoke(other, at.operator)).status).toBe(404);
    const logged = (await acts()).filter(({ verb, target }) => verb === 'revoke' && target === id);
    expect(logged.map(({ outcome }) => outcome)).toEqual(headers.map(() => 'refused'));
  });
});

test('500 the run journal cannot be read: loudly, never half-empty', async () => {
  const file = readdirSync(at.dataDir).find((name) => name.endsWith('.db')) ?? '';
  const database = new DatabaseSync(join(at.dataDir, file), { timeout: 60_000 });
  database.exec('alter table runs rename to runs_gone');
  const broken = await at.get(base);
  expect(refusal(broken)).toEqual([500, 'journal_unreadable']);
  expect(broken.json).not.toHaveProperty('sessions');
  database.exec('alter table runs_gone rename to runs');
  expect((await at.get(base)).status).toBe(200);
  database.close();
});

describe('over time', () => {
  // Heartbeats of two seconds: a slow machine can tell two missed beats from four.
  const flags = ['--enable-all-workflows', '--heartbeat-secs', '2'];
  let host: ContractHost;
  beforeAll(async () => {
    host = await startContractHost({ flags, says });
  });
  afterAll(() => host?.end());

  test('no heartbeat by the deadline: stale, then closed heartbeat_lost, and the row leaves the live feed', async () => {
    const { id, secret } = (await host.post<Registered>(base, { harness: 'make' })).json;
    const shown = async () =>
      (await host.get<{ sessions: Session[] }>(base)).json.sessions.find((one) => one.id === id);
    await host.wait('it is stale', async () => (await shown())?.stale === true);
    await host.wait('it is lost', async () => (await shown()) === undefined);
    const left = await host.get<WorkReceipt>(`${base}/${id}/receipt`);
    expect(left.json).toMatchObject({ outcome: 'failed', close_reason: 'heartbeat_lost' });
    expect((await host.post(`${base}/${id}/heartbeat`, {}, withSecret(secret))).status).toBe(404);
    const { acts: all } = (await host.get<{ acts: Act[] }>('/agent/v1/acts')).json;
    expect(all.find(({ verb }) => verb === 'session.lost')).toMatchObject({ target: id, by: 'host' });
  });

  test('revoking persists across a restart, and an external session too', async () => {
    const asking = '[[steps]]\nid = "ask"\ngate = { kind = "input", schema = { type = "object" } }\n';
    const looking = '[[steps]]\nid = "a"\nagent = "worker"\nneeds = ["ask"]\nprompt = "#look"\n';
    const rest = `model = "${model}"\ngrants = { tools = ["observe_health"] }\n`;
    await host.post('/agent/v1/workflows', workflow({ name: 'asks', rest, steps: asking + looking }));
    const { headers, json } = await host.post<RunEvent[]>('/agent/v1/workflows/asks/runs');
    const id = json[0]?.type === 'run_start' ? json[0].run_id : '';
    const capability = withSecret(headers.get('x-svc-session-secret') ?? '');
    expect(
      (await host.post(`${base}/${headers.get('x-svc-session')}/revoke`, undefined, capability)).status,
    ).toBe(200);
    const made = (await host.post<Registered>(base, { harness: 'make' })).json;
    host.host.kill('SIGKILL');
    await host.end();
    host = await startContractHost({ flags: ['--enable-all-workflows'], says, dataDir: host.dataDir });
    const beaten = await host.post(`${base}/${made.id}/heartbeat`, {}, withSecret(made.secret));
    expect(beaten.status).toBe(200);
    expect((await host.post(`/agent/v1/runs/${id}/resume`, { inputs: {} })).status).toBe(200);
    const detail = async () => (await host.get<RunDetail>(`/agent/v1/runs/${id}`)).json;
    await host.wait('the run has failed', async () => (await detail()).state === 'failed');
    expect((await detail()).step_records[1]?.error).toMatch(/revoked/);
  });
});

/** All rows of a database, as text. */
function everything(file: string): string {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 60_000 });
  const tables = database.prepare("select name from sqlite_master where type = 'table'").all();
  const text = tables.map(({ name }) =>
    JSON.stringify(database.prepare(`select * from "${String(name)}"`).all()),
  );
  database.close();
  return text.join('\n');
}
