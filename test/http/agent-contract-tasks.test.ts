import { existsSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Act } from '../../src/agent/shapes/act.ts';
import type { AgentSpec } from '../../src/agent/shapes/agent-spec.ts';
import type { PendingChange } from '../../src/agent/shapes/pending-change.ts';
import type { Session } from '../../src/agent/shapes/session.ts';
import type { TaskDetail } from '../../src/agent/shapes/task.ts';
import type { ToolCatalogEntry } from '../../src/agent/shapes/tool.ts';
import type { TurnEvent } from '../../src/agent/shapes/turn-event.ts';
import {
  type ContractHost,
  expectWhole,
  model,
  refusal,
  errorMessageOf,
  startContractHost,
} from '../support/contract-host.ts';

// Sections 4.1 and 6 of the interface, and the tasks and changes of its section 3, on the product itself.

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'lathe-contract-files-')));
const write = (name: string, content: string) => ({
  calls: [{ name: 'fs_write', arguments: { intent: 'because', path: join(folder, name), content } }],
});
const says = {
  look: [{ reasoning: 'Hm.', calls: [{ name: 'observe_health', arguments: {} }] }, { text: 'All is well.' }],
  write: [write('a.txt', 'one\n'), { text: 'It is staged.' }],
  moved: [write('moved.txt', 'new\n'), { text: 'It is staged.' }],
  broken: [{ status: 501, error: { message: 'no' } }],
};
const writer = {
  name: 'writer',
  instructions: 'Write.',
  model,
  grants: { tools: ['fs_*', 'observe_*'], read: [folder], write: [folder] },
};

let at: ContractHost;
beforeAll(async () => {
  at = await startContractHost({ says });
  expect((await at.post('/agent/v1/agents', writer)).status).toBe(201);
});
afterAll(() => at?.end());

const task = (prompt: string, more: object = {}, headers: Record<string, string> = {}) =>
  at.post<TurnEvent[]>('/agent/v1/tasks', { prompt, agent: 'writer', ...more }, headers);
const idOf = ([first]: readonly TurnEvent[]) => (first?.type === 'start' ? first.task_id : '');
const detail = async (id: string) => (await at.get<TaskDetail>(`/agent/v1/tasks/${id}`)).json;
const pending = async () => (await at.get<PendingChange[]>('/agent/v1/pending')).json;
const journal = async () => (await at.get<{ acts: Act[] }>('/agent/v1/acts?limit=1000')).json.acts;
/** The change that a task staged. */
async function staged(prompt: string): Promise<PendingChange> {
  const { json } = await task(prompt);
  const event = json.find(({ type }) => type === 'staged') as Extract<TurnEvent, { type: 'staged' }>;
  const change = (await pending()).find(({ id }) => id === event.pending_id);
  return change as PendingChange;
}

describe('POST /agent/v1/tasks', () => {
  test('200 NDJSON, one TurnEvent per line: start first, answer last, seq without holes', async () => {
    const { status, headers, json } = await task('#look at it', { nobody_knows_this: true });
    expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expectWhole(json);
    expect(json.map(({ type }) => type)).toEqual(
      'start turn reasoning usage tool_call tool_result turn delta usage answer'.split(' '),
    );
    expect(json[0]).toMatchObject({
      type: 'start',
      task_id: expect.stringMatching(/^t[1-9]\d*$/),
      agent: 'writer',
    });
    expect(json.at(-1)).toMatchObject({ type: 'answer', text: 'All is well.', turns: 2 });
    expect(headers.get('x-svc-session')).toMatch(/^s[0-9a-f]{8}-\d+$/);
    expect(headers.get('x-svc-session-secret')).toMatch(/.{40}/);
  });

  test('the last line is aborted where there is no answer; the task has failed', async () => {
    const { json } = await task('#broken');
    expectWhole(json);
    expect(json.at(-1)).toMatchObject({ type: 'aborted', reason: 'error' });
    expect(await detail(idOf(json))).toMatchObject({ state: 'failed', ok: false, outcome: 'error' });
    const over = async (prompt: string, limits: object) => (await task(prompt, { limits })).json.at(-1);
    expect(await over('#look', { max_turns: 1 })).toMatchObject({ type: 'aborted', reason: 'budget' });
    expect(await over('#hold-late', { timeout_secs: 0.2 })).toMatchObject({
      type: 'aborted',
      reason: 'timeout',
    });
  });

  test('the stream replays from any seq, also while it grows; a bad after is a 400', async () => {
    const live = await at.open<TurnEvent[]>('POST', '/agent/v1/tasks', {
      body: { prompt: '#hold-stream', agent: 'writer' },
    });
    const [row] = (await at.get<{ sessions: Session[] }>('/agent/v1/sessions')).json.sessions;
    const path = `/agent/v1/tasks/${row?.id}/events`;
    const following = at.get<TurnEvent[]>(`${path}?after=0`);
    at.release('stream');
    const whole = (await live.rest()).json;
    expectWhole(whole);
    expect((await following).json).toEqual(whole.slice(1));
    for (let after = -1; after <= whole.length; after += 1)
      expect((await at.get(`${path}?after=${after}`)).json).toEqual(whole.slice(after + 1));
    expect((await at.get(path)).json).toEqual(whole);
    for (const after of ['', 'x', '-2', '1.5'])
      expect((await at.get(`${path}?after=${after}`)).status).toBe(400);
    expect((await at.get('/agent/v1/tasks/t999/events')).status).toBe(404);
  });

  test('a client that goes away does not kill the task', async () => {
    const leaving = new AbortController();
    const response = await fetch(`${at.url}/agent/v1/tasks`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: '#hold-left', agent: 'writer' }),
      signal: leaving.signal,
    });
    await response.body?.getReader().read();
    const [row] = (await at.get<{ sessions: Session[] }>('/agent/v1/sessions')).json.sessions;
    leaving.abort();
    at.release('left');
    await at.wait('the task goes on', async () => (await detail(row?.id ?? '')).state === 'completed');
  });

  test('400 names every violation; 415 and 413', async () => {
    const bad = await task('', { cwd: 7, limits: { max_turns: 0 }, grants: { tools: 'x' } });
    expect(bad.status).toBe(400);
    const { violations } = (bad.json as unknown as { error: { violations: { path: string }[] } }).error;
    expect(new Set(violations.map(({ path }) => path))).toEqual(
      new Set(['prompt', 'cwd', 'limits.max_turns', 'grants.tools']),
    );
    const wider = await task('x', {
      grants: { tools: ['fs_read', 'run_command'], write: ['/etc'] },
      cwd: 'here',
    });
    expect(wider.status).toBe(400);
    expect(errorMessageOf(wider)).toMatch(/cwd.*run_command.*\/etc/);
    expect((await task('x', { agent: 'nobody' })).status).toBe(400);
    expect((await at.post('/agent/v1/tasks', '{"prompt":"x"}')).status).toBe(415);
    const large = { prompt: 'x'.repeat(40 << 20) };
    expect((await at.post('/agent/v1/tasks', large)).status).toBe(413);
  });

  test('429 when 32 are in flight', async () => {
    const held = await Promise.all(
      Array.from({ length: 32 }, () =>
        at.open<TurnEvent[]>('POST', '/agent/v1/tasks', { body: { prompt: '#hold-many', agent: 'writer' } }),
      ),
    );
    const over = await task('x');
    expect([over.status, over.headers.get('retry-after')]).toEqual([429, '5']);
    at.release('many');
    for (const { rest } of held) expect((await rest()).json.at(-1)?.type).toBe('answer');
    expect((await task('x')).status).toBe(200);
  });

  test('503 where the resident model of the agent is not there', async () => {
    expect((await at.post('/agent/v1/tasks', { prompt: 'x' })).status).toBe(503);
  });

  test('the same Idempotency-Key and body: the same stream; another body: 409', async () => {
    const key = { 'idempotency-key': 'one' };
    const first = await task('#look', {}, key);
    const again = await task('#look', {}, key);
    expect(again.text).toBe(first.text);
    expect(again.headers.get('x-svc-session')).toBe(first.headers.get('x-svc-session'));
    expect(again.headers.get('x-svc-session-secret')).toBeNull();
    expect(refusal(await task('other', {}, key))).toEqual([409, 'idempotency_conflict']);
    expect((await task('x', {}, { 'idempotency-key': 'x'.repeat(256) })).status).toBe(400);
  });
});

describe('GET /agent/v1/tasks/{id}', () => {
  test('200 session-shaped detail + turn summary + ok', async () => {
    const id = idOf((await task('#look at all', { cwd: folder })).json);
    expect(await detail(id)).toMatchObject({
      id,
      kind: 'task',
      state: 'completed',
      title: '#look at all',
      cwd: folder,
      cancellable: false,
      ok: true,
      agent: 'writer',
      outcome: 'answer',
      answer: 'All is well.',
      route: { engine: 'gateway', model },
      tokens: { prompt: 20, completion: expect.any(Number) as number },
      turns: [
        { n: 1, tool_calls: [{ tool: 'observe_health', ok: true }] },
        { n: 2, text: 'All is well.', tool_calls: [] },
      ],
    });
  });

  test('404 unknown task id', async () => {
    for (const id of ['t0', 't999', 'r1', 'x', '%00'])
      expect((await at.get(`/agent/v1/tasks/${id}`)).status).toBe(404);
  });

  test('a task running: cancel is always 409, one atomic turn with no seam; then it is completed in the history', async () => {
    const live = await at.open<TurnEvent[]>('POST', '/agent/v1/tasks', {
      body: { prompt: '#hold-cancel', agent: 'writer' },
    });
    const rows = async () => (await at.get<{ sessions: Session[] }>('/agent/v1/sessions')).json.sessions;
    const [row] = await rows();
    expect(row).toMatchObject({ kind: 'task', state: 'running', cancellable: false });
    const id = row?.id ?? '';
    expect(await detail(id)).toMatchObject({ state: 'running', ok: true });
    expect(refusal(await at.post(`/agent/v1/sessions/${id}/cancel`))).toEqual([409, 'not_cancellable']);
    expect((await at.get(`/agent/v1/sessions/${id}/receipt`)).status).toBe(404);
    at.release('cancel');
    await live.rest();
    expect((await at.post(`/agent/v1/sessions/${id}/cancel`)).status).toBe(404);
    const after = await rows();
    expect(after.findIndex((one) => one.id === id)).toBeGreaterThan(
      after.findIndex(({ id: one }) => one === 'host'),
    );
    expect(after.find((one) => one.id === id)).toMatchObject({ state: 'completed', kind: 'task' });
    expect((await at.get(`/agent/v1/sessions/${id}/receipt`)).json).toMatchObject({
      id,
      kind: 'task',
      contract: 1,
    });
  });
});

describe('/agent/v1/pending', () => {
  test('GET: 200 array of PendingChange; approve: 200 applied, exactly what was staged, once', async () => {
    const change = await staged('#write');
    expect(change).toMatchObject({
      id: expect.stringMatching(/^p\d+$/),
      kind: 'file_write',
      tool: 'fs_write',
      agent: 'writer',
      intent: 'because',
      path: join(folder, 'a.txt'),
      base_hash: 'absent',
      risk: expect.any(String),
      diff: expect.stringContaining('+one'),
    });
    expect(existsSync(join(folder, 'a.txt'))).toBe(false);
    const approve = () => at.post(`/agent/v1/pending/${change.id}/approve`);
    expect((await approve()).json).toEqual({ id: change.id, applied: true });
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
    expect((await approve()).json).toEqual({ id: change.id, applied: true });
    expect(await pending()).toEqual([]);
    expect((await at.post(`/agent/v1/pending/${change.id}/discard`)).status).toBe(409);
    expect(
      (await journal()).filter(({ target, outcome }) => target === change.id && outcome === 'applied'),
    ).toEqual([expect.objectContaining({ verb: 'approve', by: 'local' })]);
  });

  test('approve: 409 when the base moved, and the change stays staged; 404 unknown', async () => {
    writeFileSync(join(folder, 'moved.txt'), 'old\n');
    const { id } = await staged('#moved');
    writeFileSync(join(folder, 'moved.txt'), 'newer\n');
    expect((await at.post(`/agent/v1/pending/${id}/approve`)).status).toBe(409);
    expect(readFileSync(join(folder, 'moved.txt'), 'utf8')).toBe('newer\n');
    expect((await pending()).map((change) => change.id)).toContain(id);
    expect((await at.post(`/agent/v1/pending/${id}/discard`)).status).toBe(200);
    for (const verb of ['approve', 'discard'])
      expect((await at.post(`/agent/v1/pending/p999/${verb}`)).status).toBe(404);
    expect((await at.get('/agent/v1/pending/p999')).status).toBe(404);
  });

  test('discard: 400 body not an object, non-string note, or note over 2000 chars; the staged change is untouched', async () => {
    const before = await staged('#moved');
    const path = `/agent/v1/pending/${before.id}/discard`;
    for (const body of [[], 5, null, { note: 5 }, { note: null }, { note: 'x'.repeat(2001) }])
      expect((await at.post(path, body)).status).toBe(400);
    expect((await at.post(path, '{"note":"x"}')).status).toBe(415);
    expect(await pending()).toEqual([before]);
    const note = 'ü'.repeat(2000);
    const discarded = await at.post(path, { note, more: 1 });
    expect([discarded.status, discarded.json]).toEqual([200, { id: before.id, discarded: true }]);
    expect((await at.post(path, { note: 'another' })).status).toBe(200);
    expect(await pending()).toEqual([]);
    const noted = (await journal()).filter(({ target }) => target === before.id);
    expect(noted).toEqual([expect.objectContaining({ verb: 'discard', outcome: 'applied', note })]);
    // Not delivered to any runtime.
    expect((await at.get(`/agent/v1/pending/${before.id}`)).text).not.toContain('ü');
    expect(JSON.stringify(at.gateway.requests)).not.toContain('ü');
    expect((await at.post(`/agent/v1/pending/${before.id}/approve`)).status).toBe(409);
  });
});

test('GET /agent/v1/tools: 200 array of ToolCatalogEntry, each state with its reason', async () => {
  const { status, json } = await at.get<ToolCatalogEntry[]>('/agent/v1/tools');
  expect(status).toBe(200);
  const of = (name: string) => json.find((tool) => tool.name === name);
  expect(of('fs_read')).toMatchObject({ availability: 'available', destructive: false, source: 'builtin' });
  expect(of('fs_write')).toMatchObject({ availability: 'gated', destructive: true });
  expect(of('lab_graph')).toMatchObject({ availability: 'unavailable' });
  const built =
    'fs_list fs_read fs_search fs_write fs_edit fs_delete fs_rename fs_mkdir http_get run_command'.split(' ');
  expect(json.map(({ name }) => name)).toEqual(expect.arrayContaining(built));
  for (const { availability, reason } of json)
    expect(reason === undefined).toBe(availability === 'available');
});

describe('/agent/v1/agents', () => {
  const spec = { name: 'critic', instructions: 'Judge.', mood: 'grim' };
  const stored: AgentSpec = {
    ...spec,
    model: 'resident',
    grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
  };
  test('GET: 200 array of AgentSpec', async () => {
    const { status, json } = await at.get<AgentSpec[]>('/agent/v1/agents');
    expect([status, json.map(({ name }) => name)]).toEqual([200, ['default', 'writer']]);
  });
  test('POST: 201 the stored AgentSpec; 409 name exists', async () => {
    const made = await at.post('/agent/v1/agents', spec);
    expect([made.status, made.json]).toEqual([201, stored]);
    expect((await at.post('/agent/v1/agents', spec)).status).toBe(409);
  });
  test('POST: 400 invalid body, grants or name, all violations at once', async () => {
    const bad = await at.post('/agent/v1/agents', {
      name: 'Bad Name',
      grants: { tools: 5, read: ['relative'] },
    });
    expect(bad.status).toBe(400);
    const { violations } = (bad.json as { error: { violations: { path: string }[] } }).error;
    expect(violations.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['name', 'instructions', 'grants.tools', 'grants.read.0']),
    );
    for (const body of [[], null, 'x', {}])
      expect((await at.post('/agent/v1/agents', body)).status).toBe(typeof body === 'string' ? 415 : 400);
  });
  test('GET {name}: 200 AgentSpec; 404', async () => {
    const one = await at.get('/agent/v1/agents/critic');
    expect([one.status, one.json]).toEqual([200, stored]);
    expect((await at.get('/agent/v1/agents/nobody')).status).toBe(404);
  });
  test('PUT {name}: 200 stored AgentSpec (upsert); 400 invalid, or body name differs from path', async () => {
    const put = (name: string, body: unknown) => at.call('PUT', `/agent/v1/agents/${name}`, { body });
    const changed = await put('critic', { ...spec, instructions: 'Praise.' });
    expect([changed.status, changed.json]).toEqual([200, { ...stored, instructions: 'Praise.' }]);
    expect((await put('fresh', { ...spec, name: 'fresh' })).status).toBe(200);
    expect((await put('critic', { ...spec, name: 'fresh' })).status).toBe(400);
    expect((await put('critic', { name: 'critic' })).status).toBe(400);
    expect((await at.get('/agent/v1/agents/critic')).json).toMatchObject({ instructions: 'Praise.' });
  });
  test('DELETE {name}: 204; 404', async () => {
    expect((await at.call('DELETE', '/agent/v1/agents/critic')).status).toBe(204);
    expect((await at.call('DELETE', '/agent/v1/agents/critic')).status).toBe(404);
  });
});
