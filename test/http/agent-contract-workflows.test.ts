import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EnsembleRecord } from '../../src/agent/shapes/ensemble.ts';
import type { LintReport } from '../../src/agent/shapes/lint-report.ts';
import type { RunDetail, RunEvent, RunRecord } from '../../src/agent/shapes/run.ts';
import {
  type ContractHost,
  expectWhole,
  model,
  refusal,
  errorMessageOf,
  startContractHost,
} from '../support/contract-host.ts';
import { workflow as plain } from '../support/workflows.ts';

// Section 4.2 of the interface, the run stream of its section 6 and the beginnings of runs of its section 3.

const workflow = (name: string, steps: string, header = '') =>
  plain({ name, header, rest: `model = "${model}"\n`, steps });
const step = (id: string, prompt: string, more = '') =>
  `[[steps]]\nid = "${id}"\nagent = "worker"\nprompt = "${prompt}"\n${more}\n`;
const two = workflow(
  'open',
  step('a', 'Topic {{inputs.topic}}: {{input}} #two') +
    step('b', 'After {{steps.a.output}}', 'needs = ["a"]'),
  'description = "Two steps."\n[inputs.topic]\ntype = "string"\ndefault = "cats"\n[inputs.count]\ntype = "integer"',
);

const says = {
  two: [{ calls: [{ name: 'observe_health', arguments: {} }] }, { text: 'First.' }],
  no: [{ status: 501, error: { message: 'no' } }],
};
let at: ContractHost;
beforeAll(async () => {
  const names = ['open', 'bad', 'held', 'code-review'];
  at = await startContractHost({ says, flags: names.flatMap((name) => ['--enable-workflow', name]) });
});
afterAll(() => at?.end());

const base = '/agent/v1/workflows';
const put = (name: string, source: string) =>
  at.call<EnsembleRecord>('PUT', `${base}/${name}`, { body: source });
const run = (name: string, body?: unknown) => at.post<RunEvent[]>(`${base}/${name}/runs`, body);
const runIdOf = ([first]: readonly RunEvent[]) => (first?.type === 'run_start' ? first.run_id : '');
const detail = async (id: string) => (await at.get<RunDetail>(`/agent/v1/runs/${id}`)).json;
const reported = ({ json }: { json: unknown }) => json as LintReport;

describe('ensembles', () => {
  test('POST: 201 Ensemble, the source verbatim; 409 name exists', async () => {
    const source = `# a comment\r\n\t${two}\n\n`;
    const made = await at.post<EnsembleRecord>(base, source);
    expect(made.status).toBe(201);
    expect(made.json).toMatchObject({ name: 'open', source, enabled: true, description: 'Two steps.' });
    expect(made.json.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect((await at.post(base, two)).status).toBe(409);
    expect((await at.get(`${base}/open`, { accept: 'text/plain' })).text).toBe(source);
  });

  test('POST: 400 LintReport body (malformed, failed validation, or name equal to a reserved segment)', async () => {
    const bad = `${workflow('bad name', step('a', 'x', 'needs = ["nobody"]'))}\n[output]\nfrom = "c"\n`;
    const faulty = await at.post(base, bad);
    expect(faulty.status).toBe(400);
    expect(reported(faulty).ok).toBe(false);
    expect(reported(faulty).errors.length).toBeGreaterThanOrEqual(3);
    for (const { line, column } of reported(faulty).errors)
      expect([line > 0, column > 0]).toEqual([true, true]);
    for (const source of ['', '= [', 'a = 1', '\u0000'])
      expect(reported(await at.post(base, source))).toMatchObject({ ok: false });
    for (const name of ['runs', 'builtins', 'fork']) {
      const refused = await at.post(base, workflow(name, step('a', 'x')));
      expect([name, refused.status, reported(refused).ok]).toEqual([name, 400, false]);
      expect((await put(name, workflow(name, step('a', 'x')))).status).toBe(400);
    }
  });

  test('what is no text is a LintReport too; another type is 415, too much is 413', async () => {
    const body = Buffer.concat([Buffer.from('# ü\n'), Uint8Array.of(0x61, 0xff)]);
    const send = async (path: string) => {
      const response = await fetch(`${at.url}${base}${path}`, {
        method: 'POST',
        body,
        headers: { 'content-type': 'text/plain' },
      });
      return [response.status, await response.json()];
    };
    const report = { ok: false, errors: [{ code: 'not_utf8', line: 2 }], warnings: [] };
    expect(await send('')).toMatchObject([400, report]);
    expect(await send('/open/lint')).toMatchObject([200, report]);
    expect((await at.post(base, two, { 'content-type': 'application/json' })).status).toBe(415);
    expect((await at.post(base, '#'.repeat(8 << 20))).status).toBe(413);
  });

  test('GET: 200 array of Ensemble', async () => {
    const { status, json } = await at.get<EnsembleRecord[]>(base);
    expect([status, json.map(({ name }) => name)]).toEqual([200, ['open']]);
  });

  test('GET {name}: 200 Ensemble; 404', async () => {
    expect((await at.get(`${base}/open`)).json).toMatchObject({ name: 'open' });
    expect((await at.get(`${base}/nobody`)).status).toBe(404);
  });

  test('PUT {name}: 200 Ensemble (upsert); 400 LintReport body (invalid, or body name differs from path)', async () => {
    const before = (await at.get<EnsembleRecord>(`${base}/open`)).json;
    const changed = await put('open', two);
    expect([changed.status, changed.json.source]).toEqual([200, two]);
    expect(changed.json.created_at).toBe(before.created_at);
    expect((await put('other', workflow('other', step('a', 'x')))).json).toMatchObject({ enabled: false });
    for (const source of ['', '= [', two]) {
      const refused = await put('other', source);
      expect([refused.status, reported(refused).ok]).toEqual([400, false]);
    }
    expect((await at.get(`${base}/other`)).json).toMatchObject({ name: 'other' });
  });

  test('POST {name}/lint: 200 LintReport plus derived consent summary; 404 unknown name (when linting by name)', async () => {
    const lint = (name: string, source?: string) => at.post(`${base}/${name}/lint`, source);
    const stored = await lint('open');
    expect(stored.json).toMatchObject({
      ok: true,
      name: 'open',
      errors: [],
      consent: { tools: [], models: [model] },
    });
    // When present it is linted instead of the stored one, whatever is stored.
    expect((await lint('open', '= [')).json).toMatchObject({ ok: false });
    expect((await lint('nobody', two.replace('"open"', '"nobody"'))).json).toMatchObject({ ok: true });
    expect((await lint('nobody')).status).toBe(404);
    expect((await at.get(`${base}/open`)).json).toMatchObject({ source: two });
  });

  test('DELETE {name}: 204; 404', async () => {
    expect((await at.call('DELETE', `${base}/other`)).status).toBe(204);
    expect((await at.call('DELETE', `${base}/other`)).status).toBe(404);
  });
});

describe('built-ins', () => {
  test('GET builtins: 200 object {builtins: [BuiltinWorkflow]}, each self-contained', async () => {
    const { status, json } = await at.get<{ builtins: EnsembleRecord[] }>(`${base}/builtins`);
    expect(status).toBe(200);
    const names = json.builtins.map(({ name }) => name);
    const needed = ['code-review', 'kernel-tuning', 'nightly-health', 'release-notes', 'research-brief'];
    expect(names).toEqual(expect.arrayContaining(needed));
    for (const { name, version, origin, source } of json.builtins) {
      expect(origin).toBe(`builtin:${name}@${version}`);
      // A name in quotes: an agent of the store would be found by it alone.
      expect((await at.post(`${base}/${name}/lint`, source)).json).toMatchObject({ ok: true });
    }
  });

  test('fork: 201 the materialized stored Ensemble; 404 no built-in of that name; 409 target name already stored', async () => {
    const fork = (name: string, body?: unknown) => at.post<EnsembleRecord>(`${base}/${name}/fork`, body);
    const copy = await fork('code-review');
    expect(copy.status).toBe(201);
    expect(copy.json).toMatchObject({
      name: 'code-review',
      origin: `builtin:code-review@${copy.json.version}`,
    });
    expect(copy.json.source).toContain(`origin = "builtin:code-review@${copy.json.version}"`);
    const other = await fork('code-review', { as: 'mine', more: 1 });
    expect([other.status, other.json.name, other.json.origin]).toEqual([201, 'mine', copy.json.origin]);
    for (const as of [undefined, 'mine'])
      expect((await fork('code-review', as === undefined ? {} : { as })).status).toBe(409);
    expect((await fork('open')).status).toBe(404);
    expect((await fork('nobody', { as: 'x' })).status).toBe(404);
    for (const as of ['Bad Name', 5, 'runs', 'builtins', 'fork', ''])
      expect([as, (await fork('code-review', { as })).status]).toEqual([as, 400]);
    // A normal ensemble: it lints and can be replaced.
    expect((await at.post(`${base}/mine/lint`)).json).toMatchObject({ ok: true });
    expect((await put('mine', workflow('mine', step('a', 'x')))).status).toBe(200);
  });
});

describe('POST {name}/runs', () => {
  test('200 NDJSON of RunEvent: run_start, per step step_start, step_event, step_end, finally run_end', async () => {
    const { status, headers, json } = await run('open', {
      input: 'Say.',
      inputs: { topic: 'dogs', count: 2 },
      x: 1,
    });
    expect([status, headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expectWhole(json);
    const types = json.map(({ type }) => type);
    expect(types.filter((type) => type !== 'step_event')).toEqual(
      'run_start step_start step_end step_start step_end run_end'.split(' '),
    );
    expect(json[0]).toMatchObject({ run_id: expect.stringMatching(/^r\d{19}$/), workflow: 'open' });
    expect(json.at(-1)).toMatchObject({ outcome: 'completed', result: 'Said.' });
    // Each agent's TurnEvent verbatim.
    const turns = json.filter((event) => event.type === 'step_event' && event.step === 'a');
    const inner = turns.map((event) => (event.type === 'step_event' ? event.event.type : ''));
    expect([inner[0], inner.at(-1)]).toEqual(['turn', 'answer']);
    expectWhole(turns.flatMap((event) => (event.type === 'step_event' ? [event.event] : [])));
    expect(headers.get('x-svc-session')).toMatch(/^s[0-9a-f]{8}-\d+$/);
    expect(at.gateway.requests[0]?.body.messages.at(-1)?.content).toContain('Topic dogs: Say.');
    const id = runIdOf(json);
    expect(await detail(id)).toMatchObject({
      id,
      state: 'completed',
      cancellable: false,
      result: 'Said.',
      inputs: { topic: 'dogs', count: 2 },
      route: { engine: 'gateway', model },
      step_records: [
        { id: 'a', state: 'completed', attempts: 1 },
        { id: 'b', state: 'completed' },
      ],
    });
  });

  test('the stream replays from any seq; a bad after is a 400, an unknown run a 404', async () => {
    const { json } = await run('open');
    const events = (after: number | string) =>
      at.get(`/agent/v1/runs/${runIdOf(json)}/events?after=${after}`);
    for (const after of [-1, 0, 3, json.length - 1, json.length + 7])
      expect((await events(after)).json).toEqual(json.slice(after + 1));
    expect((await events('x')).status).toBe(400);
    expect((await at.get('/agent/v1/runs/r1/events')).status).toBe(404);
  });

  test('400: members of the wrong type, and inputs that do not fit, all at once', async () => {
    for (const body of [[], { input: 5 }, { inputs: [] }, { retried_from: 5 }])
      expect((await run('open', body)).status).toBe(400);
    const wrong = await run('open', { inputs: { topic: 5, count: 'x', other: 1 } });
    expect(wrong.status).toBe(400);
    const { violations } = (wrong.json as unknown as { error: { violations: { path: string }[] } }).error;
    expect(violations.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['inputs.topic', 'inputs.count', 'inputs.other']),
    );
  });

  test('an un-enabled name gets the same name-free, byte-identical 404 as an unknown name', async () => {
    await put('closed', workflow('closed', step('a', 'x')));
    const bodies = [undefined, {}, { retried_from: 'r1' }, { inputs: [] }, '{', '['.repeat(100)];
    const answers = ['closed', 'nobody', 'nightly-health', 'Bad%20Name', 'runs', 'x'.repeat(500)].flatMap(
      (name) =>
        bodies.map(async (body) => {
          const { status, headers, text } = await run(name, body);
          const names = [...headers.keys()].toSorted();
          const same = [...headers].filter(([key]) => !['date', 'x-request-id', 'request-id'].includes(key));
          return JSON.stringify([status, names, same, text]);
        }),
    );
    const all = new Set(await Promise.all(answers));
    expect([...all]).toHaveLength(1);
    expect([...all][0]).toMatch(/^\[404,/);
    expect([...all][0]).not.toMatch(/closed|nobody/);
  });

  test('409: a run is already in flight, and the text says so', async () => {
    await put('held', workflow('held', step('a', '#hold-run')));
    const live = await at.open<RunEvent[]>('POST', `${base}/held/runs`, {});
    const refused = await run('open');
    expect(refusal(refused)).toEqual([409, 'run_in_flight']);
    expect(errorMessageOf(refused)).toMatch(/in flight/);
    at.release('run');
    expect((await live.rest()).json.at(-1)).toMatchObject({ type: 'run_end', outcome: 'completed' });
  });

  test('retried_from: an existing terminal-failed run, otherwise 409 which says so; the source row is never mutated', async () => {
    await put('bad', workflow('bad', step('a', '#no')));
    const failed = runIdOf((await run('bad')).json);
    const before = await detail(failed);
    expect(before).toMatchObject({ state: 'failed', step_records: [{ state: 'failed' }] });
    expect(before.result).toBeUndefined();
    const completed = runIdOf((await run('open')).json);
    for (const id of [completed, 'r1', 't1', 'x', '']) {
      const refused = await run('bad', { retried_from: id });
      expect(refusal(refused)).toEqual([409, 'invalid_retried_from']);
      expect(errorMessageOf(refused)).toMatch(/retried_from failed verification/);
    }
    const elsewhere = await run('open', { retried_from: failed });
    expect(refusal(elsewhere)).toEqual([409, 'invalid_retried_from']);
    expect(errorMessageOf(elsewhere)).toMatch(/workflow 'bad', not of 'open'/);
    const again = runIdOf((await run('bad', { retried_from: failed })).json);
    const { json } = await at.get<RunRecord[]>(`${base}/runs`);
    expect(json.find(({ id }) => id === again)).toMatchObject({ retried_from: failed, state: 'failed' });
    expect(await detail(failed)).toEqual(before);
  });

  test('GET runs: 200 array of RunRecord (recent run journal), newest first', async () => {
    const { status, json } = await at.get<RunRecord[]>(`${base}/runs`);
    expect(status).toBe(200);
    expect(json.map(({ id }) => id)).toEqual(
      json
        .map(({ id }) => id)
        .toSorted()
        .toReversed(),
    );
    expect((await at.get<RunRecord[]>(`${base}/runs?limit=1`)).json).toEqual(json.slice(0, 1));
    expect((await at.get(`${base}/runs?limit=0`)).status).toBe(400);
  });
});
