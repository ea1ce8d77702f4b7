import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import { storedReceipts, verifyReceipts } from '../../src/agent/receipts/verify-receipts.ts';
import { loadHostKey } from '../../src/signing/host-key.ts';
import { Store } from '../../src/store/index.ts';
import { freshDataDir, startSource } from '../support/host.ts';
import { workflowSource } from '../support/kills/stored-actor.ts';
import { postgresPrograms, startPostgres } from '../support/postgres-server.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';

const model = 'scripted';
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Line {
  readonly type: string;
  readonly seq: number;
  readonly outcome?: string;
  readonly task_id?: string;
  readonly run_id?: string;
  readonly error?: unknown;
}
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
const expectWhole = (lines: readonly Line[]) =>
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));

describe.skipIf(postgresPrograms() === undefined)('hosts on their own PostgreSQL server', () => {
  const undo: (() => unknown)[] = [];
  afterEach(async () => {
    for (const step of undo.splice(0).toReversed()) await step();
  });

  async function prepare() {
    const server = await startPostgres();
    undo.push(() => server.stop());
    const at = (name: string) => `postgres:///${name}?host=${server.folder}&user=lathe`;
    const client = new pg.Client({ connectionString: at('postgres') });
    await client.connect();
    await client.query('create database hosts');
    await client.end();
    const script = await scriptedOpenAi(({ body: { messages } }) =>
      messages.some(({ content }) => content?.includes('SLOWLY'))
        ? { text: 'word '.repeat(700), chunkMs: 20 }
        : { text: 'Done.', chunkMs: 2 },
    );
    undo.push(() => script.close());
    const config = join(freshDataDir(), 'lathe.toml');
    writeFileSync(config, `[gateway]\nurl = "${script.url}"\nmodels = ["${model}"]\n`);
    const database = at('hosts');
    const start = async (dataDir: string) => {
      const flags = ['--port', '0', '--data-dir', dataDir, '--database', database, '--config', config];
      const host = startSource([...flags, '--heartbeat-secs', '2', '--enable-all-workflows']);
      undo.push(() => host.end());
      const url = await host.url();
      const open = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
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
      const ask = async (...args: Parameters<typeof open>) => {
        const response = await open(...args);
        return { status: response.status, text: await response.text() };
      };
      const json = async (...args: Parameters<typeof open>) => {
        const { status, text } = await ask(...args);
        expect(status, `${args[0]} ${args[1]}: ${text}`).toBeLessThan(300);
        return JSON.parse(text) as Record<string, unknown>;
      };
      const task = async (agent: string) =>
        linesOf((await ask('POST', '/agent/v1/tasks', { agent, prompt: 'Go.' })).text);
      /** At work, and its whole stream when it is over. */
      const begin = async (path: string, body: object) => {
        const response = await open('POST', path, body);
        const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
        let text = '';
        while (!text.includes('\n')) text += (await reader?.read())?.value ?? '';
        const rest = (async () => {
          for (;;) {
            const next = await reader?.read();
            if (!next || next.done) return linesOf(text);
            text += next.value;
          }
        })();
        rest.catch(() => undefined);
        const [first] = linesOf(text.slice(0, text.indexOf('\n')));
        return { id: first?.task_id ?? first?.run_id ?? '', rest };
      };
      const feed = async () =>
        (await json('GET', '/agent/v1/sessions'))['sessions'] as {
          id: string;
          kind: string;
          state: string;
        }[];
      return { host, ask, json, task, begin, feed, dataDir };
    };
    const first = await start(freshDataDir());
    await first.json('PUT', '/agent/v1/agents/worker', { name: 'worker', instructions: 'Work.', model });
    await first.json('PUT', '/agent/v1/agents/slow', { name: 'slow', instructions: 'Work SLOWLY.', model });
    await first.json('PUT', '/agent/v1/workflows/plain', workflowSource('plain', model));
    const slow = workflowSource('slow', model).replaceAll('Go.', 'Go SLOWLY.');
    await first.json('PUT', '/agent/v1/workflows/slow', slow);
    const verify = async (dataDir: string) => {
      const endpointId = readFileSync(join(dataDir, 'endpoint-id'), 'utf8').trim();
      const store = await Store.open({ url: database, endpointId });
      try {
        const verdict = await verifyReceipts(storedReceipts(store), (await loadHostKey(dataDir)).publicKey);
        expect(verdict).toMatchObject({ ok: true });
        return verdict.receipts;
      } finally {
        await store.close();
      }
    };
    return { server, start, first, verify };
  }

  it.each(['SIGINT', 'SIGQUIT'] as const)(
    'a server that ends (%s) and comes back: refusals that say so, and then all goes on',
    async (signal) => {
      const { server, first, verify } = await prepare();
      const { ask, json, task, begin, dataDir, host } = first;
      const done = await task('worker');
      const session = (await json('POST', '/agent/v1/sessions', { harness: 'test' })) as {
        id: string;
        secret: string;
      };
      const secret = { 'x-svc-session-secret': session.secret };
      // Its client sends heartbeats all the time, whatever the answers, so that the session still exists afterwards.
      const beating = setInterval(
        () =>
          void ask('POST', `/agent/v1/sessions/${session.id}/heartbeat`, {}, secret).catch(() => undefined),
        1000,
      );
      undo.push(() => clearInterval(beating));
      const slowTask = await begin('/agent/v1/tasks', { agent: 'slow', prompt: 'Go.' });
      const slowRun = await begin('/agent/v1/workflows/slow/runs', {});
      await server.halt(signal);
      const refused: [string, string, unknown?, Record<string, string>?][] = [
        ['POST', '/agent/v1/tasks', { agent: 'worker', prompt: 'Go.' }],
        ['PUT', '/agent/v1/agents/other', { name: 'other', instructions: 'x', model }],
        ['POST', '/agent/v1/sessions', { harness: 'test' }],
        ['POST', `/agent/v1/sessions/${session.id}/heartbeat`, {}, secret],
        ['GET', '/agent/v1/sessions'],
        ['GET', '/agent/v1/pending'],
        ['GET', `/agent/v1/tasks/${done[0]?.task_id}`],
      ];
      await Promise.all(
        refused.map(async ([method, path, body, headers]) => {
          const { status, text } = await ask(method, path, body, headers);
          expect([path, status, text]).toEqual([
            path,
            500,
            expect.stringMatching(/cannot be (?:reached|read)/),
          ]);
        }),
      );
      for (const path of ['/health', '/agent/v1/tools']) expect((await ask('GET', path)).status).toBe(200);
      // Longer than four heartbeats, after which a session is lost that is silent.
      await pause(9000);
      await server.startAgain();

      /** A stream ends with an error when the database fails; the reader then requests the rest. */
      const whole = async (kind: 'tasks' | 'runs', { id, rest }: Awaited<ReturnType<typeof begin>>) => {
        const lines = await rest;
        if (!lines.at(-1)?.error || lines.at(-1)?.type) return lines;
        expect(JSON.stringify(lines.pop())).toMatch(/storage_failed.*cannot be (?:reached|read)/);
        const { text } = await ask('GET', `/agent/v1/${kind}/${id}/events?after=${lines.length - 1}`);
        return [...lines, ...linesOf(text)];
      };
      const [taskLines, runLines] = await Promise.all([whole('tasks', slowTask), whole('runs', slowRun)]);
      // It may have been short enough to be waited out; else they say why they ended.
      const reason =
        /could not record what was done, because the (?:connection to the )?PostgreSQL database|cannot be reached|terminating connection|was lost while the changes were being saved/;
      const [taskEnd, runEnd] = [taskLines.at(-1), runLines.at(-1)];
      if (taskEnd?.type !== 'answer')
        expect(taskEnd).toMatchObject({ type: 'aborted', message: expect.stringMatching(reason) });
      if (runEnd?.outcome !== 'completed')
        expect(runEnd).toMatchObject({ outcome: 'failed', error: expect.stringMatching(reason) });
      expectWhole(taskLines);
      expectWhole(runLines);
      await json('POST', `/agent/v1/sessions/${session.id}/heartbeat`, {}, secret);
      expect((await task('worker')).at(-1)).toMatchObject({ type: 'answer', text: 'Done.' });
      const run = linesOf((await ask('POST', '/agent/v1/workflows/plain/runs', {})).text);
      expect(run.at(-1)).toMatchObject({ type: 'run_end', outcome: 'completed' });
      expect(await verify(dataDir)).toBeGreaterThanOrEqual(5);
      host.kill('SIGTERM');
      expect(await host.exit).toEqual({ code: 0, signal: null });
    },
  );

  it('two hosts on one database keep their own tasks and runs, also when one of them dies', async () => {
    const { start, first, verify } = await prepare();
    const second = await start(freshDataDir());
    const both = [first, second];
    const made = await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        const lines = await (both[index % 2] ?? first).task('worker');
        expect(lines.at(-1)).toMatchObject({ type: 'answer' });
        return lines[0]?.task_id ?? '';
      }),
    );
    // One row of numbers for both, without holes.
    expect(new Set(made)).toEqual(new Set(made.map((_, index) => `t${index + 1}`)));
    const own = (which: number) => new Set(made.filter((_, index) => index % 2 === which));
    for (const [which, { feed }] of both.entries()) {
      const tasks = (await feed()).filter(({ kind }) => kind === 'task');
      expect(new Set(tasks.map(({ id }) => id))).toEqual(own(which));
    }

    const left = await second.begin('/agent/v1/tasks', { agent: 'slow', prompt: 'Go.' });
    const leftRun = await second.begin('/agent/v1/workflows/slow/runs', {});
    // A run for each host.
    const run = linesOf((await first.ask('POST', '/agent/v1/workflows/plain/runs', {})).text);
    expect(run.at(-1)).toMatchObject({ outcome: 'completed' });
    second.host.kill('SIGKILL');
    await second.host.exit;
    first.host.kill('SIGTERM');
    await first.host.exit;
    const again = await start(first.dataDir);
    await pause(500);
    expect(await again.json('GET', `/agent/v1/tasks/${left.id}`)).toMatchObject({ state: 'running' });
    expect(await again.json('GET', `/agent/v1/runs/${leftRun.id}`)).toMatchObject({ state: 'running' });
    expect((await again.feed()).map(({ id }) => id)).not.toContain(left.id);
    for (const path of [`sessions/${leftRun.id}/cancel`, `runs/${leftRun.id}/pause`])
      expect([path, (await again.ask('POST', `/agent/v1/${path}`)).status]).toEqual([path, 409]);
    // Readers on the other host see it go on when its own host is back.
    const reading = again.ask('GET', `/agent/v1/tasks/${left.id}/events`);
    const back = await start(second.dataDir);
    const lines = linesOf((await reading).text);
    expect(lines.map(({ type }) => type)).toContain('resumed');
    expect(lines.at(-1)).toMatchObject({ type: 'answer' });
    expectWhole(lines);
    expect(await back.json('GET', `/agent/v1/runs/${leftRun.id}`)).toMatchObject({ state: 'running' });
    expect((await back.ask('POST', `/agent/v1/sessions/${leftRun.id}/cancel`)).status).toBe(202);
    await verify(first.dataDir);
    expect(await verify(second.dataDir)).toBe(21);
  });
});
