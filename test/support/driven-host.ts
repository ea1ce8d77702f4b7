import { mkdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { RunDetail, RunEvent } from '../../src/agent/shapes/run.ts';
import type { TurnEvent } from '../../src/agent/shapes/turn-event.ts';
import { type Checked, model, refusal } from './contract-host.ts';
import { fakeProvider } from './gateway/provider.ts';
import { customerOf } from './gateway/world.ts';
import { freshDataDir } from './host.ts';
import { ledgerOn } from './ledger.ts';
import { startWatchedHost, type WatchedHost } from './watched-host.ts';
import { workflow } from './workflows.ts';

const step = (id: string, prompt: string, more = '') =>
  `[[steps]]\nid = "${id}"\nagent = "worker"\nprompt = "${prompt}"\n${more}\n`;
const form = '{ kind = "input", schema = { type = "object", properties = { who = { type = "string" } } } }';
const workflows = {
  asking: `[[steps]]\nid = "ask"\ngate = ${form}\n${step('greet', 'To {{steps.ask.output.who}}', 'needs = ["ask"]')}`,
  waiting: '[[steps]]\nid = "wait"\ngate = { kind = "event", name = "user.go" }\n',
  failing: step('fall', '#broken'),
};

const gatewayToml = (baseUrl: string) => `[[providers]]
id = "far"
wire = "anthropic-messages"
base_url = "${baseUrl}"
api_key_file = "far.key"
[[models]]
id = "far-1"
provider = "far"
family = "anthropic"
caps = ["chat"]
context_window = 1000
max_output_tokens = 100
in_usd_per_mtok = "3"
out_usd_per_mtok = "15"
`;

/** What the resident model says. */
export const answered = ['I ', 'am ', 'at ', 'home.'];

/** A host with a resident model, a lab, a gateway to a provider, and an agent's gateway; without the agent's work. */
export async function startWholeHost({
  database,
  script = {},
}: {
  readonly database?: string;
  readonly script?: Readonly<Record<string, unknown>>;
} = {}) {
  const dataDir = freshDataDir();
  const folder = join(realpathSync(freshDataDir()), 'written');
  mkdirSync(folder);
  const write = (name: string) => ({
    calls: [
      {
        name: 'fs_write',
        arguments: { intent: 'to have it', path: join(folder, `${name}.txt`), content: `${name}\n` },
      },
    ],
  });
  const far = await fakeProvider([{ say: { text: 'From afar.', usage: { input: 10, output: 5 } } }]);
  const file = join(dataDir, 'gateway.toml');
  writeFileSync(file, gatewayToml(far.baseUrl('anthropic-messages')));
  writeFileSync(join(dataDir, 'far.key'), 'sk-ant-far-away-0123456789');
  const at = await startWatchedHost({
    dataDir,
    script: { says: answered, lab: true, ...script },
    flags: [
      '--gateway-config',
      file,
      '--enable-all-workflows',
      '--heartbeat-secs',
      '1',
      ...(database === undefined ? [] : ['--database', database]),
    ],
    says: {
      look: [{ calls: [{ name: 'observe_health', arguments: {} }] }, { text: 'All is well.' }],
      broken: [{ status: 500, error: { message: 'it is broken' } }],
      ...Object.fromEntries(
        ['kept', 'dropped', 'left'].map((name) => [name, [write(name), { text: 'It is staged.' }]]),
      ),
    },
  });
  const grants = { tools: ['fs_*', 'observe_*'], read: [folder], write: [folder] };
  const agents = [
    { name: 'writer', instructions: 'Write.', model, grants },
    { name: 'homely', instructions: 'Stay.', model: 'resident' },
  ];
  for (const agent of agents) expect((await at.post('/agent/v1/agents', agent)).status).toBe(201);
  for (const [name, steps] of Object.entries(workflows)) {
    const source = workflow({ name, rest: `model = "${model}"\n`, steps });
    expect((await at.post('/agent/v1/workflows', source)).status).toBe(201);
  }
  return {
    ...at,
    books: database ?? `sqlite:${at.database}`,
    async end() {
      await at.end();
      await far.close();
    },
  };
}
type WholeHost = Awaited<ReturnType<typeof startWholeHost>>;

const lastOf = ({ json }: Checked<readonly (TurnEvent | RunEvent)[]>) => json.at(-1);

/** Tasks, a failed one too; changes that were approved, discarded and left; by their names. */
export async function driveTasks(at: WholeHost) {
  const task = async (prompt: string, agent = 'writer') => {
    const response = await at.post<TurnEvent[]>('/agent/v1/tasks', { prompt, agent });
    const [first] = response.json;
    const staged = response.json.find(({ type }) => type === 'staged');
    return {
      id: first?.type === 'start' ? first.task_id : '',
      last: lastOf(response)?.type,
      change: staged?.type === 'staged' ? staged.pending_id : '',
    };
  };
  const tasks = {
    look: await task('#look at it'),
    broken: await task('#broken'),
    home: await task('Hello?', 'homely'),
    kept: await task('#kept'),
    dropped: await task('#dropped'),
    left: await task('#left'),
  };
  expect(Object.values(tasks).map(({ last }) => last)).toEqual(
    'answer aborted answer answer answer answer'.split(' '),
  );
  const verb = (id: string, name: string, body?: unknown) => at.post(`/agent/v1/pending/${id}/${name}`, body);
  expect((await verb(tasks.kept.change, 'approve')).status).toBe(200);
  expect((await verb(tasks.dropped.change, 'discard', { note: 'no' })).status).toBe(200);
  expect((await verb(tasks.dropped.change, 'approve')).status).toBe(409);
  return tasks;
}

/** A run that asked and went on, one that waits, one that failed. */
export async function driveRuns(at: WholeHost) {
  const run = async (name: keyof typeof workflows) => {
    const response = await at.post<RunEvent[]>(`/agent/v1/workflows/${name}/runs`, {});
    const [first] = response.json;
    return { id: first?.type === 'run_start' ? first.run_id : '', last: lastOf(response) };
  };
  const asking = await run('asking');
  expect(asking.last).toMatchObject({ type: 'run_end', outcome: 'suspended', waiting_on: 'input' });
  const [waited] = await at.rows({
    surface: 'runs',
    where: [{ column: 'id', op: 'eq', value: asking.id }],
    select: ['state', 'waiting_on', 'waiting_step', 'waiting_ms'],
  });
  expect(waited).toEqual({
    state: 'suspended',
    waiting_on: 'input',
    waiting_step: 'ask',
    waiting_ms: expect.any(Number),
  });
  expect((await at.post(`/agent/v1/runs/${asking.id}/resume`, { inputs: { who: 'Ann' } })).status).toBe(200);
  await at.wait('the run goes on', async () => {
    const { json } = await at.get<RunDetail>(`/agent/v1/runs/${asking.id}`);
    return json.state === 'completed';
  });
  const failing = await run('failing');
  expect(failing.last).toMatchObject({ type: 'run_end', outcome: 'failed' });
  const waiting = await run('waiting');
  return { asking: asking.id, failing: failing.id, waiting: waiting.id };
}

/** One that ended and one that was lost. */
export async function driveExternal(at: WholeHost) {
  const begin = async (harness: string) =>
    (await at.post<{ id: string; secret: string }>('/agent/v1/sessions', { harness, title: `A ${harness}` }))
      .json;
  const [ended, lost] = [await begin('make'), await begin('cargo')];
  const headers = { 'x-svc-session-secret': ended.secret };
  const beat = { tokens: { prompt: 50, completion: 5 }, last_event: 'linking' };
  expect((await at.post(`/agent/v1/sessions/${ended.id}/heartbeat`, beat, headers)).status).toBe(200);
  const end = { outcome: 'failed', exit_code: 2, summary: 'no such file' };
  expect((await at.post(`/agent/v1/sessions/${ended.id}/end`, end, headers)).status).toBe(200);
  return { ended: ended.id, lost: lost.id };
}

interface CompletionCall {
  readonly wire: string;
  readonly path: string;
  readonly stream: boolean;
  readonly id: string;
  readonly status: number;
}

const messages = [{ role: 'user', content: 'Hello?' }];
/** One of each wire that makes texts, with what it refuses. */
const wires = [
  ['chat', '/v1/chat/completions', { messages }, { messages: 7 }],
  ['completions', '/v1/completions', { prompt: 'Hello?' }, { prompt: {} }],
  ['responses', '/v1/responses', { input: 'Hello?' }, { input: 7 }],
  ['messages', '/v1/messages', { messages, max_tokens: 50 }, { messages: 7 }],
  ['ollama', '/api/chat', { messages }, { messages: 7 }],
  ['llama-cpp', '/completion', { prompt: 'Hello?' }, { prompt: [] }],
] as const;

/** On each wire: whole, piece by piece, refused; embeddings once. */
export async function driveCompletions(at: WatchedHost): Promise<CompletionCall[]> {
  const calls: CompletionCall[] = [];
  const ask = async (wire: string, path: string, body: object, stream: boolean) => {
    const response = await fetch(at.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'scripted', ...body, stream }),
    });
    const text = await response.text();
    if (response.ok && !stream && wire !== 'embeddings') expect(text).toContain(answered.join(''));
    const id = response.headers.get('x-request-id') ?? '';
    calls.push({ wire, path, stream, id, status: response.status });
  };
  for (const [wire, path, body, wrong] of wires) {
    await ask(wire, path, body, false);
    await ask(wire, path, body, true);
    await ask(wire, path, wrong, false);
  }
  await ask('embeddings', '/v1/embeddings', { input: 'Hello?' }, false);
  return calls;
}

/** Requests at the gateway: of the resident model, of a provider's, and one that was not let through. */
export async function driveGateway(at: WholeHost) {
  const books = await ledgerOn(at.books);
  const { secret, accountId } = await customerOf(books);
  await books.close();
  const answers: { model: string; stream: boolean; status: number; headers: Headers }[] = [];
  for (const [requestedModel, stream, more] of [
    ['scripted', false, {}],
    ['scripted', true, {}],
    ['far-1', false, {}],
    ['far-1', true, {}],
    ['far-1', false, { 'x-svc-max-cost-nanousd': '1' }],
  ] as const) {
    const response = await fetch(`${at.url}/gateway/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}`, ...more },
      body: JSON.stringify({ model: requestedModel, messages, stream, max_tokens: 50 }),
    });
    await response.text();
    answers.push({ model: requestedModel, stream, status: response.status, headers: response.headers });
  }
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 402]);
  return { accountId, answers };
}

/** Kernels that passed and fell, a run of parity, a bench. */
export async function driveLab(at: WholeHost) {
  const kernel = (name: string, source: string) =>
    at.post('/lab/v1/kernels', { name, op: 'rms_norm', source, dispatch: { x: '1' } });
  expect(refusal(await kernel('fast', '// right'))).toEqual([201, undefined]);
  expect(refusal(await kernel('slow', '// wrong'))).toEqual([201, undefined]);
  expect((await at.post('/lab/v1/parity/run')).status).toBe(200);
  expect((await at.post('/lab/v1/bench', {})).status).toBe(200);
}
