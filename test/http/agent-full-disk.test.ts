import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { storedReceipts, verifyReceipts } from '../../src/agent/receipts/verify-receipts.ts';
import { loadHostKey } from '../../src/signing/host-key.ts';
import { Store } from '../../src/store/index.ts';
import { freshDataDir, startScriptedHost } from '../support/host.ts';
import { workflowSource } from '../support/kills/stored-actor.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';
import { noDisks, smallDisk } from '../support/small-disk.ts';
import { until } from '../support/until.ts';

const reason = noDisks();
const model = 'scripted';
const beatMs = 300;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

interface Line {
  readonly type: string;
  readonly seq: number;
  readonly outcome?: string;
  readonly message?: string;
}
const linesOf = (text: string): Line[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);

// One scenario in sequence: each part depends on the one before.
describe.skipIf(reason !== undefined)(
  `a host whose disk is full${reason ? `: skipped, ${reason}` : ''}`,
  () => {
    const undo: (() => unknown)[] = [];
    afterAll(async () => {
      for (const step of undo.splice(0).toReversed()) await step();
    });

    async function prepare() {
      const disk = smallDisk('16m');
      undo.push(disk.remove);
      const script = await scriptedOpenAi(({ body: { messages } }) =>
        messages.some(({ content }) => content?.includes('SLOWLY'))
          ? { text: 'word '.repeat(3000), chunkMs: 10 }
          : { text: 'Done.' },
      );
      undo.push(() => script.close());
      const config = join(freshDataDir(), 'lathe.toml');
      writeFileSync(config, `[gateway]\nurl = "${script.url}"\nmodels = ["${model}"]\n`);
      const dataDir = join(disk.folder, 'data');
      mkdirSync(dataDir, { mode: 0o700 });
      const flags = [
        '--gpu',
        '--port',
        '0',
        '--control-port',
        '0',
        '--data-dir',
        dataDir,
        '--config',
        config,
      ];
      const start = async () => {
        const host = startScriptedHost([...flags, '--heartbeat-secs', '1', '--enable-all-workflows']);
        undo.push(() => host.end());
        const url = await host.url();
        const ask = async (
          method: string,
          path: string,
          body?: unknown,
          more: Record<string, string> = {},
        ) => {
          const isText = typeof body === 'string';
          const type = { 'content-type': isText ? 'text/plain' : 'application/json' };
          const response = await fetch(url + path, {
            method,
            headers: { ...(body === undefined ? {} : type), ...more },
            ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
          });
          return { status: response.status, text: await response.text(), headers: response.headers };
        };
        return { host, url, ask };
      };
      return { disk, dataDir, start };
    }
    type Asking = Awaited<ReturnType<Awaited<ReturnType<typeof prepare>>['start']>>;

    const agent = (name: string, instructions: string) => ({ name, instructions, model });
    const task = { agent: 'worker', prompt: 'Go.' };

    /** The first line has come: it is at work. */
    async function begin(at: Asking, path: string, body: object) {
      const response = await fetch(at.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      expect(response.status).toBe(200);
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = (await reader?.read())?.value ?? '';
      const rest = (async () => {
        for (;;) {
          const next = await reader?.read();
          if (!next || next.done) return linesOf(text);
          text += next.value;
        }
      })();
      rest.catch(() => undefined);
      const [first] = linesOf(text) as [Line & { task_id?: string; run_id?: string }];
      return { id: first.task_id ?? first.run_id ?? '', rest };
    }

    it('refuses new work, answers reads, ends running work, and recovers when there is space again', async () => {
      const { disk, dataDir, start } = await prepare();
      const at = await start();
      const { ask, host } = at;
      const json = async (method: string, path: string, body?: unknown) => {
        const { status, text } = await ask(method, path, body);
        expect(status, `${method} ${path}: ${text}`).toBeLessThan(300);
        return JSON.parse(text) as Record<string, unknown>;
      };
      await json('PUT', '/agent/v1/agents/worker', agent('worker', 'Work.'));
      await json('PUT', '/agent/v1/agents/slow', agent('slow', 'Work SLOWLY.'));
      await json('PUT', '/agent/v1/workflows/plain', workflowSource('plain', model));
      const slow = workflowSource('slow', model).replaceAll('Go.', 'Go SLOWLY.');
      await json('PUT', '/agent/v1/workflows/slow', slow);
      const gate = 'gate = { kind = "input", schema = { type = "object" } }';
      await json('PUT', '/agent/v1/workflows/gated', workflowSource('gated', model, gate));
      const done = linesOf((await ask('POST', '/agent/v1/tasks', task)).text);
      const doneTask = (done[0] as Line & { task_id: string }).task_id;
      const ended = linesOf((await ask('POST', '/agent/v1/workflows/plain/runs', {})).text);
      const doneRun = (ended[0] as Line & { run_id: string }).run_id;
      const suspendedLines = linesOf((await ask('POST', '/agent/v1/workflows/gated/runs', {})).text);
      const suspendedRun = (suspendedLines[0] as Line & { run_id: string }).run_id;
      const register = async () =>
        (await json('POST', '/agent/v1/sessions', { harness: 'full' })) as { id: string; secret: string };
      const [beating, silent, leaving] = [await register(), await register(), await register()];
      const beat = ({ id, secret }: { id: string; secret: string }) =>
        ask('POST', `/agent/v1/sessions/${id}/heartbeat`, {}, { 'x-svc-session-secret': secret });
      let beats = true;
      undo.push(() => {
        beats = false;
      });
      const answered = new Map<number, number>();
      const heartbeat = (async () => {
        for (; beats; await pause(beatMs)) {
          const { status } = await beat(beating);
          answered.set(status, (answered.get(status) ?? 0) + 1);
        }
      })();

      const atWork = await begin(at, '/agent/v1/tasks', { agent: 'slow', prompt: 'Go.' });
      const running = await begin(at, '/agent/v1/workflows/slow/runs', {});
      disk.fill();
      // Writes that fit the space of the database's log are still accepted.
      let refusals = 0;
      const accepted: string[] = [];
      for (let n = 0; refusals < 5; n++) {
        expect(n, 'the disk is never full').toBeLessThan(2000);
        const spec = agent(`a${n}`, 'x'.repeat(20_000));
        const { status, text } = await ask('PUT', `/agent/v1/agents/a${n}`, spec);
        if (status === 200) accepted.push(`a${n}`);
        else refusals += 1;
        if (status !== 200) expect([status, text]).toEqual([503, expect.stringContaining('storage_full')]);
      }
      await pause(500);

      const operator = { 'x-svc-operator': readFileSync(join(dataDir, 'operator.token'), 'utf8').trim() };
      const whatIsNew: [string, string, unknown?, Record<string, string>?][] = [
        ['POST', '/agent/v1/tasks', task],
        ['POST', '/agent/v1/agents', agent('new', 'x')],
        ['PUT', '/agent/v1/agents/worker', agent('worker', 'Work better.')],
        ['DELETE', '/agent/v1/agents/worker'],
        ['PUT', '/agent/v1/workflows/new', workflowSource('new', model)],
        ['DELETE', '/agent/v1/workflows/plain'],
        ['POST', '/agent/v1/workflows/release-notes/fork', { as: 'copy' }],
        ['POST', '/agent/v1/sessions', { harness: 'full' }],
        ['POST', '/agent/v1/events', { name: 'user.go', data: {} }],
        [
          'POST',
          `/agent/v1/sessions/${leaving.id}/end`,
          { outcome: 'completed' },
          { 'x-svc-session-secret': leaving.secret },
        ],
        ['POST', `/agent/v1/sessions/${suspendedRun}/cancel`],
      ];
      for (const [method, path, body, headers] of whatIsNew) {
        const { status, text, headers: responseHeaders } = await ask(method, path, body, headers);
        expect([path, status, text]).toEqual([path, 503, expect.stringContaining('storage_full')]);
        expect(JSON.parse(text)).toMatchObject({
          error: { message: expect.stringMatching(/full\. Make room/) },
        });
        expect(responseHeaders.get('retry-after')).toBe('30');
      }
      // The running run holds the slot until its end can be stored.
      expect((await ask('POST', '/agent/v1/workflows/plain/runs', {})).status).toBe(409);

      const reads = [
        '/health',
        '/host/v1/health',
        '/host/v1/info',
        '/host/v1/telemetry',
        '/v1/models',
        '/agent/v1/sessions',
        '/agent/v1/tools',
        '/agent/v1/agents',
        '/agent/v1/pending',
        '/agent/v1/workflows',
        '/agent/v1/workflows/builtins',
        '/agent/v1/workflows/runs',
        `/agent/v1/tasks/${doneTask}`,
        `/agent/v1/tasks/${doneTask}/events`,
        `/agent/v1/tasks/${atWork.id}`,
        `/agent/v1/sessions/${doneTask}/receipt`,
        `/agent/v1/sessions/${doneRun}/receipt`,
        `/agent/v1/runs/${doneRun}`,
        `/agent/v1/runs/${doneRun}/events`,
        `/agent/v1/runs/${running.id}`,
        `/agent/v1/runs/${suspendedRun}`,
      ];
      for (const path of reads) expect([path, (await ask('GET', path)).status]).toEqual([path, 200]);
      const completion = await ask('POST', '/v1/chat/completions', {
        messages: [{ role: 'user', content: 'Hi.' }],
      });
      expect([completion.status, completion.text]).toEqual([200, expect.stringContaining('xxxx')]);
      // Longer than a session lives without heartbeats. Heartbeats count even if they cannot be stored.
      await pause(5000);
      await until(() => (answered.get(503) ?? 0) > 5);
      const { sessions } = await json('GET', '/agent/v1/sessions');
      expect(
        (sessions as { id: string; stale?: boolean }[]).find(({ id }) => id === beating.id)?.stale,
      ).not.toBe(true);

      disk.makeRoom();
      const taskLines = await atWork.rest;
      const runLines = await running.rest;
      expect(taskLines.at(-1)).toMatchObject({
        type: 'aborted',
        reason: 'error',
        message: expect.stringMatching(/is full/),
      });
      expect(runLines.at(-1)).toMatchObject({
        type: 'run_end',
        outcome: 'failed',
        error: expect.stringMatching(/is full/),
      });
      for (const lines of [taskLines, runLines])
        expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, index) => index));
      beats = false;
      await heartbeat;
      expect(new Set(answered.keys())).toEqual(new Set([200, 503]));
      expect((await beat(beating)).status).toBe(200);
      for (let tries = 0; (await beat(silent)).status !== 404; tries++) {
        // It may have come back in the moment before it was closed.
        expect(tries).toBeLessThan(20);
        await pause(6000);
      }
      expect(await json('GET', `/agent/v1/sessions/${silent.id}/receipt`)).toMatchObject({
        close_reason: 'heartbeat_lost',
      });
      const stored = (await json('GET', '/agent/v1/agents')) as unknown as { name: string }[];
      expect(stored.map(({ name }) => name)).toEqual(expect.arrayContaining([...accepted, 'worker']));
      expect(stored.map(({ name }) => name)).not.toContain('new');
      const again = linesOf((await ask('POST', '/agent/v1/tasks', task)).text);
      expect(again.at(-1)).toMatchObject({ type: 'answer', text: 'Done.' });
      const resumed = await ask('POST', `/agent/v1/runs/${suspendedRun}/resume`, { inputs: {} });
      expect(resumed.status).toBe(200);
      const whole = linesOf((await ask('GET', `/agent/v1/runs/${suspendedRun}/events`)).text);
      expect(whole.at(-1)).toMatchObject({ type: 'run_end', outcome: 'completed' });
      expect(
        (await ask('POST', `/agent/v1/sessions/${await begunSession(at)}/revoke`, undefined, operator))
          .status,
      ).toBe(200);
      // Failures are reported, but not thousands of times.
      expect(
        host.output.stderr.split('\n').filter((line) => /full/.test(line)).length,
        host.output.stderr,
      ).toBeLessThan(200);
      host.kill('SIGTERM');
      expect(await host.exit).toEqual({ code: 0, signal: null });

      const next = await start();
      const feed = JSON.parse((await next.ask('GET', '/agent/v1/sessions')).text) as {
        sessions: { id: string; state: string; kind: string }[];
      };
      expect(
        feed.sessions.filter(
          ({ kind, state }) => kind !== 'host' && state === 'running' && kind !== 'external',
        ),
      ).toEqual([]);
      await expectReceipts(dataDir);
      expect(next.host.output.stderr).not.toMatch(/Error/);
    });

    /** The store session of a task that was just made. */
    async function begunSession(at: Asking): Promise<string> {
      const { headers } = await at.ask('POST', '/agent/v1/tasks', task);
      return headers.get('x-svc-session') ?? '';
    }

    async function expectReceipts(dataDir: string): Promise<void> {
      const endpointId = readFileSync(join(dataDir, 'endpoint-id'), 'utf8').trim();
      const store = await Store.open({ url: `sqlite:${join(dataDir, 'lathe.db')}`, endpointId });
      try {
        expect(
          await verifyReceipts(storedReceipts(store), (await loadHostKey(dataDir)).publicKey),
        ).toMatchObject({
          ok: true,
        });
      } finally {
        await store.close();
      }
    }
  },
);
