import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PendingChange } from '../../src/agent/shapes/pending-change.ts';
import type { RunDetail, RunEvent } from '../../src/agent/shapes/run.ts';
import type { Session } from '../../src/agent/shapes/session.ts';
import {
  type ContractHost,
  expectWhole,
  model,
  refusal,
  errorMessageOf,
  startContractHost,
} from '../support/contract-host.ts';
import { workflow } from '../support/workflows.ts';

// Run control of section 4.3 of the interface, and the runs of its section 3. A pause of 300 s is waited for in
// test/http/runs-control.test.ts, 'resumes by itself after 300 seconds', on a manual clock.

const step = (id: string, prompt: string, more = '') =>
  `[[steps]]\nid = "${id}"\nagent = "worker"\nprompt = "${prompt}"\n${more}\n`;
const gate = (id: string, of: string, more = '') => `[[steps]]\nid = "${id}"\ngate = ${of}\n${more}\n`;
const form =
  '{ kind = "input", schema = { type = "object", required = ["who"], properties = { who = { type = "string" }, n = { type = "integer", default = 7 } } } }';
const after = (id: string) => `needs = ["${id}"]`;
const workflows = {
  two: step('a', '#hold-{{input}}') + step('b', 'b', after('a')),
  form: gate('ask', form) + step('b', 'To {{steps.ask.output.who}} #hold-form', after('ask')),
  defaults: gate(
    'ask',
    '{ kind = "input", schema = { type = "object", properties = { n = { type = "integer", default = 7 } } } }',
  ),
  time: gate('wait', '{ kind = "time", after_secs = 3600 }'),
  soon: gate('wait', '{ kind = "time", after_secs = 1 }'),
  value: gate('wait', '{ kind = "value", expr = "1 > 2", poll_secs = 3600 }'),
  event: gate('wait', '{ kind = "event", name = "user.go" }'),
  approval: gate('ok', '{ kind = "approval" }') + step('b', 'b', after('ok')),
  schedule: `[entry]\nkind = "schedule"\ncron = "0 3 1 1 *"\ntz = "UTC"\n${step('a', 'cycle')}`,
  armed: `[entry]\nkind = "armed"\n${step('a', '#hold-armed')}`,
  bad: step('a', '#no'),
};

let at: ContractHost;
beforeAll(async () => {
  const says = { no: [{ status: 501, error: { message: 'no' } }] };
  at = await startContractHost({ says, flags: ['--enable-all-workflows'] });
  for (const [name, steps] of Object.entries(workflows)) {
    const source = workflow({ name, rest: `model = "${model}"\n`, steps });
    expect((await at.post('/agent/v1/workflows', source)).status).toBe(201);
  }
});
afterAll(() => at?.end());

const start = (name: keyof typeof workflows, body: object = {}) =>
  at.open<RunEvent[]>('POST', `/agent/v1/workflows/${name}/runs`, { body });
const segment = async (name: keyof typeof workflows) => (await (await start(name)).rest()).json;
const idOf = ([first]: readonly RunEvent[]) => (first?.type === 'run_start' ? first.run_id : '');
const detail = async (id: string) => (await at.get<RunDetail>(`/agent/v1/runs/${id}`)).json;
const rows = async () => (await at.get<{ sessions: Session[] }>('/agent/v1/sessions')).json.sessions;
const newest = async () => (await rows()).find(({ kind }) => kind === 'run')?.id ?? '';
const verb = (id: string, name: 'pause' | 'resume' | 'run-now', body?: unknown) =>
  at.post(`/agent/v1/runs/${id}/${name}`, body);
const cancel = (id: string) => at.post(`/agent/v1/sessions/${id}/cancel`);
const becomes = (id: string, state: RunDetail['state']) =>
  at.wait(`${id} is ${state}`, async () => (await detail(id)).state === state);
const events = async (id: string) => (await at.get<RunEvent[]>(`/agent/v1/runs/${id}/events`)).json;
/** A run that waits at a gate. */
async function suspended(name: keyof typeof workflows, waitingOn: RunDetail['waiting_on']): Promise<string> {
  const lines = await segment(name);
  expect(lines.at(-1)).toMatchObject({ type: 'run_end', outcome: 'suspended', waiting_on: waitingOn });
  expect(await detail(idOf(lines))).toMatchObject({ state: 'suspended', waiting_on: waitingOn });
  return idOf(lines);
}

test('Idempotency-Key: a repeated request starts no second run, another request with it is a 409', async () => {
  const send = (name: keyof typeof workflows, body: object, key: string) =>
    at.post<RunEvent[]>(`/agent/v1/workflows/${name}/runs`, body, { 'idempotency-key': key });
  const [one, two] = await Promise.all([
    send('defaults', { input: 'x' }, 'same'),
    send('defaults', { input: 'x' }, 'same'),
  ]);
  expect([one.status, two.status]).toEqual([200, 200]);
  expect(idOf(one.json)).toMatch(/^r\d+$/);
  expect(idOf(two.json)).toBe(idOf(one.json));
  expect([one, two].filter(({ headers }) => headers.has('x-svc-session-secret'))).toHaveLength(1);
  expect((await send('defaults', { input: 'x' }, 'same')).json).toEqual(one.json);
  expect(refusal(await send('defaults', { input: 'y' }, 'same'))).toEqual([409, 'idempotency_conflict']);
  expect(refusal(await send('time', { input: 'x' }, 'same'))).toEqual([409, 'idempotency_conflict']);
  expect((await send('defaults', {}, 'k'.repeat(256))).status).toBe(400);
  expect((await cancel(idOf(one.json))).status).toBe(202);
});

describe('pause', () => {
  test('202, at the next step boundary, never mid-step; it keeps the one-run slot; resume: 200, and it goes on', async () => {
    const live = await start('two', { input: 'paused' });
    const id = await newest();
    expect(await detail(id)).toMatchObject({ state: 'running', cancellable: true });
    expect((await verb(id, 'resume')).status).toBe(409);
    const response = await verb(id, 'pause');
    expect([response.status, response.json]).toEqual([202, { id, pause: 'requested' }]);
    expect((await detail(id)).state).toBe('running');
    at.release('paused');
    await becomes(id, 'paused');
    expect((await rows())[0]).toMatchObject({ id, kind: 'run', state: 'paused', title: 'two' });
    expect(refusal(await (await start('bad')).rest())).toEqual([409, 'run_in_flight']);
    expect(refusal(await verb(id, 'pause'))).toEqual([409, 'wrong_state']);
    expect((await verb(id, 'run-now')).status).toBe(409);
    const withForm = await verb(id, 'resume', { inputs: {} });
    expect(refusal(withForm)).toEqual([409, 'wrong_state']);
    expect(errorMessageOf(withForm)).toMatch(/paused/);
    expect((await detail(id)).state).toBe('paused');
    const resumed = await verb(id, 'resume');
    expect([resumed.status, resumed.json]).toEqual([200, { id, resumed: true }]);
    const lines = (await live.rest()).json;
    expect(lines.at(-1)).toMatchObject({ type: 'run_end', outcome: 'completed' });
    expectWhole(lines);
    for (const name of ['pause', 'resume'] as const)
      expect((await verb(id, name)).status).toBe(name === 'pause' ? 404 : 409);
    expect((await cancel(id)).status).toBe(404);
  });

  test('404 no live run; 409 not running, or a task or external session', async () => {
    expect((await verb('r1', 'pause')).status).toBe(404);
    for (const id of ['t1', 'x1', 'host']) expect((await verb(id, 'pause')).status).toBe(409);
    const waiting = await suspended('event', 'event');
    expect(errorMessageOf(await verb(waiting, 'pause'))).toMatch(/suspended/);
    expect((await cancel(waiting)).status).toBe(202);
  });
});

describe('cancel', () => {
  test('202 {id, cancel: requested}: cancelled at the next step boundary, the stream ends with run_end cancelled', async () => {
    const live = await start('two', { input: 'cancelled' });
    const id = await newest();
    const response = await cancel(id);
    expect([response.status, response.json]).toEqual([202, { id, cancel: 'requested' }]);
    expect((await detail(id)).state).toBe('running');
    at.release('cancelled');
    const lines = (await live.rest()).json;
    const steps = lines.filter(({ type }) => type !== 'step_event');
    expect(steps.map(({ type }) => type)).toEqual('run_start step_start step_end run_end'.split(' '));
    expect(lines.at(-1)).toMatchObject({ type: 'run_end', outcome: 'cancelled' });
    expect(await detail(id)).toMatchObject({ state: 'cancelled', cancellable: false });
    expect((await rows()).find((row) => row.id === id)).toMatchObject({ state: 'cancelled' });
    expect((await at.get(`/agent/v1/sessions/${id}/receipt`)).json).toMatchObject({
      kind: 'run',
      outcome: 'cancelled',
    });
  });

  test('404 no live session; 409 host row', async () => {
    for (const id of ['r1', 't999', 'x1', 's00000000-1', 'nobody'])
      expect((await cancel(id)).status).toBe(404);
    expect((await cancel('host')).status).toBe(409);
  });
});

describe('run suspended (input gate)', () => {
  test('resume with invalid inputs: 400 with the full violation list, unchanged', async () => {
    const id = await suspended('form', 'input');
    const before = await detail(id);
    expect(before.gate).toMatchObject({ step: 'ask', schema: { required: ['who'] } });
    const wrong = await verb(id, 'resume', { inputs: { n: 'x' } });
    expect(wrong.status).toBe(400);
    const { violations } = (wrong.json as { error: { violations: { path: string }[] } }).error;
    expect(violations.map(({ path }) => path)).toEqual(expect.arrayContaining(['inputs.who', 'inputs.n']));
    for (const body of [undefined, {}, { inputs: {} }])
      expect((await verb(id, 'resume', body)).status).toBe(400);
    // A misspelt member is no reason to go on without it.
    const misspelt = await verb(id, 'resume', { inputs: { who: 'ann' }, input: { n: 1 } });
    expect([misspelt.status, JSON.stringify(misspelt.json)]).toEqual([400, expect.stringContaining('input')]);
    for (const body of [[], { inputs: [] }, { inputs: 5 }, { inputs: null }])
      expect((await verb(id, 'resume', body)).status).toBe(400);
    expect((await verb(id, 'resume', '{}')).status).toBe(415);
    expect((await verb(id, 'run-now')).status).toBe(409);
    expect(await detail(id)).toEqual(before);

    // A new run_start..run_end segment. What was dispatched from its gate is not cancelled.
    const resumed = await verb(id, 'resume', { inputs: { who: 'ann' } });
    expect([resumed.status, resumed.json]).toEqual([200, { id, resumed: true }]);
    expect(await detail(id)).toMatchObject({ state: 'running', cancellable: false });
    expect(refusal(await cancel(id))).toEqual([409, 'not_cancellable']);
    at.release('form');
    await becomes(id, 'completed');
    const lines = await events(id);
    expectWhole(lines);
    expect(lines.map(({ type }) => type).filter((type) => type.startsWith('run_'))).toEqual(
      'run_start run_end run_start run_end'.split(' '),
    );
    expect(await detail(id)).toMatchObject({
      result: 'Said.',
      step_records: [{ output: { who: 'ann', n: 7 } }, {}],
    });
  });

  test('{} keeps declared defaults', async () => {
    for (const body of [{ inputs: {} }, {}, undefined]) {
      const id = await suspended('defaults', 'input');
      expect((await verb(id, 'resume', body)).status).toBe(200);
      await becomes(id, 'completed');
      expect((await detail(id)).step_records[0]?.output).toEqual({ n: 7 });
    }
  });

  test('it counts as live for cancel, and another run may go meanwhile', async () => {
    const id = await suspended('form', 'input');
    expect((await segment('bad')).at(-1)).toMatchObject({ outcome: 'failed' });
    expect((await rows())[0]).toMatchObject({
      id,
      state: 'suspended',
      waiting_on: 'input',
      suspend_kind: 'interior_gate',
    });
    expect((await cancel(id)).status).toBe(202);
    expect((await detail(id)).state).toBe('cancelled');
    expect((await events(id)).at(-1)).toMatchObject({ type: 'run_end', outcome: 'cancelled' });
  });
});

describe('run suspended (predicate gate)', () => {
  test.each(['time', 'value', 'event'] as const)(
    '%s: resume is always 409, unchanged; run-now is 409',
    async (kind) => {
      const id = await suspended(kind, kind);
      for (const body of [undefined, { inputs: {} }]) {
        const refused = await verb(id, 'resume', body);
        expect(refusal(refused)).toEqual([409, 'wrong_state']);
        expect(errorMessageOf(refused)).toMatch(new RegExp(`suspended, waiting on ${kind}.*resumes it`));
      }
      expect((await verb(id, 'run-now')).status).toBe(409);
      expect((await detail(id)).state).toBe('suspended');
      expect((await cancel(id)).status).toBe(202);
    },
  );

  test('the predicate resumes it', async () => {
    const soon = await suspended('soon', 'time');
    const waits = await suspended('event', 'event');
    const fired = await at.post('/agent/v1/events', { name: 'user.go', data: { n: 1 } });
    expect([fired.status, fired.json]).toMatchObject([202, { name: 'user.go' }]);
    await becomes(waits, 'completed');
    await becomes(soon, 'completed');
    for (const body of [{}, { name: 'task.failed' }, { name: 'user.go', data: [] }])
      expect((await at.post('/agent/v1/events', body)).status).toBe(400);
  });
});

test('approval: step_waiting, the segment stays open until a person decides, and another run may run meanwhile', async () => {
  const live = await start('approval');
  const id = await newest();
  await at.wait(
    'a question',
    async () => (await at.get<PendingChange[]>('/agent/v1/pending')).json.length > 0,
  );
  const [question] = (await at.get<PendingChange[]>('/agent/v1/pending')).json;
  expect(question).toMatchObject({ run_id: id, step: 'ok' });
  expect((await segment('bad')).at(-1)).toMatchObject({ outcome: 'failed' });
  expect((await at.post(`/agent/v1/pending/${question?.id}/approve`)).status).toBe(200);
  const lines = (await live.rest()).json;
  expect(lines.find(({ type }) => type === 'step_waiting')).toMatchObject({
    waiting_on: 'approval',
    pending_id: question?.id,
  });
  expect(lines.at(-1)).toMatchObject({ type: 'run_end', outcome: 'completed' });
});

describe('run suspended (entry gate)', () => {
  test('scheduled: resume is always 409; run-now fires it', async () => {
    const id = await suspended('schedule', 'schedule');
    expect(await detail(id)).toMatchObject({ suspend_kind: 'entry_gate', wrapper_cycle: 0 });
    const refused = await verb(id, 'resume', { inputs: {} });
    expect(refused.status).toBe(409);
    expect(errorMessageOf(refused)).toMatch(/run-now fires it/);
    expect((await verb(id, 'run-now')).status).toBe(200);
    await at.wait('the cycle', async () => (await detail(id)).wrapper_cycle === 1);
    await becomes(id, 'suspended');
    expect((await cancel(id)).status).toBe(202);
  });

  test('armed: run-now is 200 cycle dispatched, and it waits again; 404 no such run', async () => {
    const id = await suspended('armed', 'armed');
    expect((await verb(id, 'resume')).status).toBe(409);
    const fired = await verb(id, 'run-now');
    expect([fired.status, fired.json]).toEqual([200, { id, dispatched: true }]);
    expect((await verb(id, 'run-now')).status).toBe(409);
    expect((await cancel(id)).status).toBe(409);
    at.release('armed');
    await becomes(id, 'suspended');
    expect(await detail(id)).toMatchObject({
      wrapper_cycle: 1,
      waiting_on: 'armed',
      suspend_kind: 'entry_gate',
    });
    expectWhole(await events(id));
    expect((await cancel(id)).status).toBe(202);
    for (const name of ['resume', 'run-now'] as const) expect((await verb('r1', name)).status).toBe(404);
  });

  test('run-now while another run has the slot, paused or not: 409', async () => {
    const id = await suspended('armed', 'armed');
    const live = await start('two', { input: 'now' });
    expect(refusal(await verb(id, 'run-now'))).toEqual([409, 'run_in_flight']);
    at.release('now');
    expect((await live.rest()).json.at(-1)).toMatchObject({ outcome: 'completed' });
    await cancel(id);
  });
});

test('GET /agent/v1/runs/{id}: 404 unknown id, or a task id, whose message points to the tasks', async () => {
  for (const id of ['r1', 'x1', 'nobody']) expect((await at.get(`/agent/v1/runs/${id}`)).status).toBe(404);
  const task = await at.get('/agent/v1/runs/t1');
  expect(task.status).toBe(404);
  expect(errorMessageOf(task)).toContain('GET /agent/v1/tasks/t1');
  expect(errorMessageOf(task)).not.toContain('{id}');
});

test('run finished: completed, failed or cancelled, in the history of the feed', async () => {
  const states = new Set((await rows()).filter(({ kind }) => kind === 'run').map(({ state }) => state));
  expect(states).toEqual(new Set(['completed', 'failed', 'cancelled']));
});
