import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Store } from '../../src/store/index.ts';
import { freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { seedJournal } from '../support/journal.ts';
import { workflowSource } from '../support/kills/stored-actor.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';

// One host on the embedded model, and a scripted gateway, for streams that are long or slow.
const model = 'scripted';
const maxSessions = 64;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Turns of an agent that emits thousands of events, and the texts of each. */
const turns = 15;
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
// Adjacent deltas of one text would be merged.
const flood = (turn: number): string =>
  [
    ...Array.from({ length: 160 }, (_, index) =>
      chunk(index % 2 === 0 ? { reasoning: `${index} ${'x'.repeat(3000)}` } : { content: 'y' }),
    ),
    chunk({
      tool_calls: [{ index: 0, id: 'again', function: { name: 'nothing', arguments: `{"turn":${turn}}` } }],
    }),
    chunk({}, 'tool_calls'),
  ].join('');

let script: Awaited<ReturnType<typeof scriptedOpenAi>>;
let host: HostProcess;
let url: string;
const dataDir = freshDataDir();
beforeAll(async () => {
  script = await scriptedOpenAi(({ body: { messages } }) => {
    const promptText = messages.map(({ content }) => content ?? '').join(' ');
    const results = messages.filter(({ role }) => role === 'tool').length;
    if (promptText.includes('FLOOD') && results < turns)
      return { raw: { contentType: 'text/event-stream', body: flood(results) } };
    if (promptText.includes('SLOWLY')) return { text: 'word '.repeat(400), chunkMs: 10 };
    return { text: 'Done.' };
  });
  const config = join(dataDir, 'lathe.toml');
  writeFileSync(config, `[gateway]\nurl = "${script.url}"\nmodels = ["${model}"]\n`);
  const flags = ['--gpu', '--port', '0', '--data-dir', dataDir, '--config', config, '--queue', '64'];
  host = startSource([...flags, '--heartbeat-secs', '3', '--enable-all-workflows']);
  url = await host.url();
  for (const [name, instructions] of [
    ['worker', 'Work.'],
    ['flooding', 'FLOOD'],
    ['slow', 'Work SLOWLY.'],
  ])
    await json('PUT', `/agent/v1/agents/${name}`, {
      name,
      instructions,
      model,
      limits: { max_tokens: 5_000_000, max_turns: 2 * turns },
    });
  await json('PUT', '/agent/v1/agents/resident', {
    name: 'resident',
    instructions: 'You are a helpful assistant.',
    model: 'resident',
    sampling: { temperature: 0 },
  });
  await json('PUT', '/agent/v1/workflows/resident', workflowSource('resident', 'resident'));
});
afterAll(async () => {
  await host?.end();
  await script?.close();
});

const ask = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  fetch(url + path, {
    method,
    headers: {
      ...(body === undefined
        ? {}
        : { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
async function json(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const response = await ask(method, path, body, headers);
  const text = await response.text();
  expect(response.status, `${method} ${path}: ${text}`).toBeLessThan(300);
  return JSON.parse(text) as Record<string, unknown>;
}
/** Starts a stream, and reads only the id in its first event. */
async function begin(path: string, body: object, member: 'task_id' | 'run_id'): Promise<string> {
  const response = await ask('POST', path, body);
  expect(response.status).toBe(200);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!text.includes('\n')) text += (await reader?.read())?.value ?? '';
  await reader?.cancel();
  return (JSON.parse(text.slice(0, text.indexOf('\n'))) as Record<string, string>)[member] ?? '';
}
const readAll = async (id: string) => (await ask('GET', `/agent/v1/tasks/${id}/events`)).text();
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; seq: number; text?: string; outcome?: string });

interface External {
  readonly id: string;
  readonly secret: string;
}
const withSecret = ({ secret }: External) => ({ 'x-svc-session-secret': secret });
const questions = [
  'What is the capital of Italy?',
  'What is the capital of France?',
  'What is the opposite of hot?',
  'What day comes after Monday?',
];
async function complete(content: string): Promise<string> {
  const body = { messages: [{ role: 'user', content }], temperature: 0, max_tokens: 60 };
  const { choices } = await json('POST', '/v1/chat/completions', body);
  return (choices as { message: { content: string } }[])[0]?.message.content ?? '';
}

describe('load', () => {
  it('64 external sessions stay alive during a run, tasks and completions; a 65th is refused', async () => {
    const alone = new Map<string, string>();
    for (const question of questions) alone.set(question, await complete(question));
    expect(new Set(alone.values()).size).toBe(questions.length);

    const register = () => ask('POST', '/agent/v1/sessions', { harness: 'load' });
    const made = await Promise.all(Array.from({ length: maxSessions }, register));
    expect(made.map(({ status }) => status)).toEqual(Array(maxSessions).fill(201));
    const sessions = await Promise.all(made.map(async (answer) => (await answer.json()) as External));
    expect((await register()).status).toBe(429);

    let over = false;
    const statuses = new Map<number, number>();
    const beats = sessions.map(() => 0);
    const heartbeats = sessions.map(async (session, index) => {
      await pause(index * 15);
      for (; !over; await pause(1000)) {
        const body = { status: index % 2 === 0 ? 'running' : 'waiting', last_event: `beat of ${index}` };
        const beat = await ask(
          'POST',
          `/agent/v1/sessions/${session.id}/heartbeat`,
          body,
          withSecret(session),
        );
        await beat.text();
        beats[index] = (beats[index] ?? 0) + 1;
        statuses.set(beat.status, (statuses.get(beat.status) ?? 0) + 1);
      }
    });
    // Longer than a session lives that does not beat: four heartbeats.
    const end = performance.now() + 14_000;
    const together = async <T>(work: () => Promise<T>) => {
      const results: T[] = [];
      while (performance.now() < end || Math.min(...beats) < 5) results.push(await work());
      return results;
    };
    const [texts, answers, runs] = await Promise.all([
      Promise.all(questions.map((question) => together(async () => [question, await complete(question)]))),
      Promise.all(
        ['resident', 'worker', 'resident'].map((agent) =>
          together(async () => {
            const task = await ask('POST', '/agent/v1/tasks', { agent, prompt: questions[1], cwd: dataDir });
            return [agent, linesOf(await task.text()).at(-1)] as const;
          }),
        ),
      ),
      together(async () =>
        linesOf(await (await ask('POST', '/agent/v1/workflows/resident/runs', {})).text()).at(-1),
      ),
    ]);
    for (const [question, text] of texts.flat())
      expect([question, text]).toEqual([question, alone.get(question ?? '')]);
    for (const [agent, last] of answers.flat())
      expect(last).toMatchObject({
        type: 'answer',
        text: agent === 'worker' ? 'Done.' : alone.get(questions[1] ?? ''),
      });
    expect(runs.length).toBeGreaterThan(0);
    for (const last of runs) expect(last).toMatchObject({ type: 'run_end', outcome: 'completed' });

    const feed = (await json('GET', '/agent/v1/sessions'))['sessions'] as {
      id: string;
      kind: string;
      stale?: boolean;
    }[];
    const live = feed.filter(({ kind }) => kind === 'external');
    expect(live.map(({ id }) => id).sort()).toEqual(sessions.map(({ id }) => id).sort());
    expect(live.filter(({ stale }) => stale)).toEqual([]);
    over = true;
    await Promise.all(heartbeats);
    expect([...statuses.keys()]).toEqual([200]);

    expect((await register()).status).toBe(429);
    const finish = async (session: External) => {
      const path = `/agent/v1/sessions/${session.id}/end`;
      await json('POST', path, { outcome: 'completed' }, withSecret(session));
    };
    const [first, ...others] = sessions as [External, ...External[]];
    await finish(first);
    const [in65, in66] = await Promise.all([register(), register()]);
    expect(new Set([in65.status, in66.status])).toEqual(new Set([201, 429]));
    for (const session of others) await finish(session);
  });

  it('stalled readers delay no other reader, cost no memory and miss no event', async () => {
    const resident = () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${host.pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
    // Memory that the host allocates for the task itself does not count against the readers.
    await readAll(await begin('/agent/v1/tasks', { agent: 'flooding', prompt: 'Go.' }, 'task_id'));
    const before = resident();
    const id = await begin('/agent/v1/tasks', { agent: 'flooding', prompt: 'Go.' }, 'task_id');
    // So many that what they have not read stands out from what the host's heap grows by anyway: up to 150 MiB.
    const idle = Array.from({ length: 200 }, () => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => undefined);
      socket.pause();
      socket.write(
        `GET /agent/v1/tasks/${id}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      );
      return socket;
    });
    const whole = await readAll(id);
    const lines = linesOf(whole);
    expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
    expect(lines.length, whole.slice(-300)).toBeGreaterThan(turns * 160);
    expect(lines.at(-1)?.type).toBe('answer');
    expect(await complete(questions[0] ?? '')).not.toBe('');
    if (process.platform === 'linux') {
      // Half of what they have not read would be more.
      const unread = (idle.length * whole.length) / 1024 / 1024;
      expect(unread).toBeGreaterThan(600);
      expect(resident() - before).toBeLessThan(unread / 2);
    }
    const [patient, ...gone] = idle;
    for (const socket of gone) socket.destroy();
    let text = '';
    for await (const bytes of patient ?? []) text += String(bytes);
    expect(unchunked(text)).toBe(whole);
  });

  it('two hundred readers follow one stream while it is written', async () => {
    const id = await begin('/agent/v1/tasks', { agent: 'slow', prompt: 'Go.' }, 'task_id');
    const texts = await Promise.all(Array.from({ length: 200 }, () => readAll(id)));
    const lines = linesOf(texts[0] ?? '');
    expect(lines.at(-1)?.type).toBe('answer');
    expect(new Set(texts).size).toBe(1);
    expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
  });

  it('the session feed is fast with ten thousand journal rows', async () => {
    const endpointId = readFileSync(join(dataDir, 'endpoint-id'), 'utf8').trim();
    const store = await Store.open({ url: `sqlite:${join(dataDir, 'lathe.db')}`, endpointId });
    await seedJournal(store, 10_000);
    await store.close();
    const begun = performance.now();
    const feed = (await json('GET', '/agent/v1/sessions'))['sessions'] as { id: string; kind: string }[];
    process.stdout.write(`feed over 10,000 rows: ${(performance.now() - begun).toFixed(1)} ms\n`);
    expect(feed.filter(({ kind }) => kind === 'task' || kind === 'run')).toHaveLength(200);
    const all = (await json('GET', '/agent/v1/sessions?limit=10000'))['sessions'] as {
      id: string;
      kind: string;
      started_at: string;
    }[];
    const ended = all.filter(({ kind }) => kind === 'task' || kind === 'run');
    expect(new Set(ended.map((row) => row.id)).size).toBe(10_000);
    const times = ended.map((row) => row.started_at);
    expect(times).toEqual(times.toSorted().toReversed());
  });

  it('the host logs no errors', () => {
    expect(host.output.stderr).not.toMatch(/Error|MaxListeners/);
  });
});

/** The body of an answer in chunks. Its texts are ASCII. */
function unchunked(answer: string): string {
  let at = answer.indexOf('\r\n\r\n') + 4;
  const parts: string[] = [];
  for (;;) {
    const end = answer.indexOf('\r\n', at);
    const size = Number.parseInt(answer.slice(at, end), 16);
    if (!(size > 0)) return parts.join('');
    parts.push(answer.slice(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}
