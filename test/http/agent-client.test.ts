/** `lathe/client` and the agent in the terminal, over a real host and a scripted model. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Lathe, TaskAborted, type TurnEvent } from '../../src/client/index.ts';
import { entryPath, freshDataDir, type HostProcess, startSource } from '../support/host.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';
import { until } from '../support/until.ts';

let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
let host: HostProcess;
let url = '';
let folder = '';
const dataDir = freshDataDir();
const config = join(mkdtempSync(join(tmpdir(), 'lathe-client-')), 'lathe.toml');
/** A prompt with `hold` in it is answered when this settles. */
let held = Promise.withResolvers<void>();

const start = async (port = '0') => {
  host = startSource(['--config', config, '--data-dir', dataDir, '--port', port]);
  url = await host.url();
};
const lathe = () => new Lathe({ url });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lathe-client-'));
  gateway = await scriptedOpenAi(async ({ body: { messages } }) => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const prompt = messages[at]?.content ?? '';
    const turns = messages.slice(at).filter(({ role }) => role === 'assistant').length;
    if (prompt.includes('hold')) await held.promise;
    if (prompt.includes('fail')) return { status: 400, error: { message: 'No.' } };
    if (prompt.includes('escape') && turns === 0)
      return {
        calls: [{ name: 'x\u001b]52;c;aGk=\u0007\u001b[2J', arguments: { '\u001b[31m\u202ea\n': 'b' } }],
      };
    if (prompt.includes('sleep') && turns === 0)
      return {
        calls: [
          { name: 'run_command', arguments: { intent: 'x', argv: ['sleep', '600'], timeout_secs: 600 } },
        ],
      };
    if (prompt.includes('write') && turns === 0)
      return {
        calls: [{ name: 'fs_write', arguments: { intent: 'asked for', path: 'a.txt', content: 'one\n' } }],
      };
    return {
      text: `Said ${prompt.trim()}: ${messages.at(-1)?.role === 'tool' ? messages.at(-1)?.content : 'nothing'}.`,
    };
  });
  writeFileSync(config, `[gateway]\nurl = "${gateway.url}"\n`);
  await start();
  await lathe().agents.put({
    name: 'worker',
    instructions: 'Work.',
    model: 'scripted',
    grants: { tools: ['fs_*', 'run_command'], read: [], write: [folder], network: [], auto_approve: [] },
  });
});
afterAll(async () => {
  await host.end();
  await gateway.close();
});

const request = (prompt: string) => ({ prompt, agent: 'worker', cwd: folder, approvals: 'wait' as const });

describe('lathe/client', () => {
  it('starts a task, decides on its change, and goes on with it', async () => {
    const client = lathe();
    const task = await client.tasks.start(request('write it'));
    expect(task.session?.secret).toMatch(/\S/);
    const types: string[] = [];
    for await (const event of task) {
      types.push(event.type);
      if (event.type !== 'waiting') continue;
      const change = await client.pending.get(event.pending_id);
      expect(change).toMatchObject({ content: 'one\n', state: 'staged' });
      await client.pending.edit(event.pending_id, 'two\n');
      await client.pending.approve(event.pending_id);
    }
    expect(types[0]).toBe('start');
    expect(types.at(-1)).toBe('answer');
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('two\n');
    expect(await (await client.tasks.send(task.id, { prompt: 'thanks' })).answer()).toBe(
      'Said thanks: nothing.',
    );
    const [newest] = await client.tasks.list({ limit: 1 });
    expect(newest).toMatchObject({ id: task.id, parts: 2, state: 'completed' });
  });

  it('throws what the host refuses, and why a task ended', async () => {
    const client = lathe();
    await expect(client.tasks.start({ ...request('x'), limits: { max_turns: 0 } })).rejects.toMatchObject({
      name: 'LatheError',
      code: 'invalid_value',
      status: 400,
      violations: [{ path: 'limits.max_turns' }],
    });
    await expect(client.tasks.get('t999')).rejects.toMatchObject({ code: 'unknown_task', status: 404 });
    await expect(new Lathe({ url: 'http://127.0.0.1:1' }).tasks.list()).rejects.toMatchObject({
      code: 'unreachable',
    });
    const failing = await client.tasks.start(request('fail'));
    await expect(failing.answer()).rejects.toThrow(TaskAborted);
  });

  it('follows a task over a restart of its host, each event once', async () => {
    held = Promise.withResolvers();
    const { port } = new URL(url);
    const task = await lathe().tasks.start(request('hold on'));
    const events: TurnEvent[] = [];
    const reading = (async () => {
      for await (const event of task) events.push(event);
    })();
    await until(() => events.length >= 2);
    host.kill('SIGKILL');
    await host.exit;
    await start(port);
    held.resolve();
    await reading;
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index));
    expect(events.map(({ type }) => type)).toContain('resumed');
    expect(events.at(-1)).toMatchObject({ type: 'answer', text: 'Said hold on: nothing.' });
  });

  it('starts and sends once where the connection is lost before the first event', async () => {
    let lost = 0;
    /** Loses the first response of each route, after the host has begun. */
    const losing: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      const path = input instanceof Request ? input.url : input.toString();
      if (init?.method !== 'POST' || lost >= (path.includes('/messages') ? 2 : 1)) return response;
      lost += 1;
      await response.body?.cancel();
      const body = new ReadableStream({ start: (controller) => controller.error(new Error('lost')) });
      return new Response(body, { status: 200, headers: response.headers });
    };
    const client = new Lathe({ url, fetch: losing });
    const [before] = await client.tasks.list({ limit: 1 });
    const task = await client.tasks.start(request('first'));
    expect(await task.answer()).toBe('Said first: nothing.');
    const next = await client.tasks.send(task.id, { prompt: 'second' });
    expect(await next.answer()).toBe('Said second: nothing.');
    expect(lost).toBe(2);
    expect(await client.tasks.get(task.id)).toMatchObject({ parts: 2 });
    expect(Number(task.id.slice(1))).toBe(Number(before?.id.slice(1)) + 1);
    // After the end there is nothing more to read.
    const rest: TurnEvent[] = [];
    for await (const event of client.tasks.events(task.id, { after: 10_000 })) rest.push(event);
    expect(rest).toEqual([]);
  });

  it('reads the rest where a response ends early and the task has ended meanwhile', async () => {
    /** Ends the stream of the task after its first event, as some proxies do. */
    const cutting: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (init?.method !== 'POST') return response;
      const [first] = (await response.text()).split('\n');
      return new Response(`${first}\n`, { status: 200, headers: response.headers });
    };
    const client = new Lathe({ url, fetch: cutting });
    const task = await client.tasks.start(request('cut'));
    const events: TurnEvent[] = [];
    for await (const event of task) events.push(event);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index));
    expect(events.at(-1)).toMatchObject({ type: 'answer', text: 'Said cut: nothing.' });
  });

  it('approves what was seen, and nothing that was edited since', async () => {
    const client = lathe();
    writeFileSync(join(folder, 'a.txt'), 'zero\n');
    const task = await client.tasks.start(request('write it'));
    let refused: unknown;
    for await (const event of task) {
      if (event.type !== 'waiting') continue;
      const { digest } = await client.pending.get(event.pending_id);
      await client.pending.edit(event.pending_id, 'other\n');
      refused = await client.pending.approve(event.pending_id, { digest }).catch((error: unknown) => error);
      const now = await client.pending.get(event.pending_id);
      await client.pending.approve(event.pending_id, { digest: now.digest });
    }
    expect(refused).toMatchObject({ status: 409, code: 'changed' });
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('other\n');
  });

  it('stops a call, or the task', async () => {
    const client = lathe();
    const task = await client.tasks.start(request('sleep'));
    let result = '';
    for await (const event of task) {
      if (event.type === 'waiting') {
        await expect(client.tasks.stopCall(task.id)).rejects.toMatchObject({ code: 'no_call' });
        void client.pending.approve(event.pending_id).catch(() => undefined);
        await until(async () => (await client.pending.get(event.pending_id)).state === 'applying');
        await client.tasks.stopCall(task.id);
      }
      if (event.type === 'tool_result') result = event.output;
    }
    expect(result).toContain('a person stopped it');
    held = Promise.withResolvers();
    const other = await client.tasks.start(request('hold'));
    await client.tasks.stop(other.id);
    await expect(other.answer()).rejects.toMatchObject({ reason: 'cancelled' });
    held.resolve();
  });
});

describe('dist/agent.js', () => {
  const run = async (args: readonly string[], input = '') => {
    const env = { ...process.env, LATHE_URL: url, NO_COLOR: '1' };
    const child = spawn(process.execPath, [entryPath('agent'), ...args], { cwd: folder, env });
    child.stdin.end(input);
    const closed = once(child, 'close');
    const [stdout, stderr, [code]] = await Promise.all([
      readText(child.stdout),
      readText(child.stderr),
      closed,
    ]);
    return { code: code as number, stdout, stderr };
  };

  it('creates an agent, talks with it, and asks about its changes', async () => {
    writeFileSync(join(folder, 'a.txt'), 'zero\n');
    const created = await run(['create', 'own', '--tools', 'fs_*', '--write', '.', '--model', 'scripted']);
    expect(created).toMatchObject({ code: 0, stderr: '' });
    expect((await run(['agents'])).stdout).toMatch(
      new RegExp(`own +scripted +fs_\\* +${folder} \\(writes\\)`),
    );
    const talk = await run(['--agent', 'own', '--lines'], 'write it\nperhaps\nno not now\nhello\n');
    expect(talk).toMatchObject({ code: 0, stderr: '' });
    expect(talk.stdout).toContain('-zero\n+one\n');
    expect(talk.stdout).toContain('Answer y, or n; a reason may follow n.');
    expect(talk.stdout).toContain('They wrote: not now');
    expect(talk.stdout).toMatch(/> hello\nSaid hello: nothing\.\n$/);
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('zero\n');

    const id = /^(t\d+)$/m.exec(talk.stdout)?.[1] ?? '';
    expect((await run(['list'])).stdout).toMatch(new RegExp(`^${id} +own +completed`, 'm'));
    const { stdout } = await run(['show', id]);
    expect(stdout).toMatch(/fs_write[\s\S]*They wrote: not now[\s\S]*> hello[\s\S]*Said hello/);
    const more = await run(['chat', 'write it', '--resume', id, '--lines'], 'y\n');
    expect(more).toMatchObject({ code: 0, stdout: expect.stringContaining('Replaced') });
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
  });

  it('lets nothing of a model reach the terminal but its text', async () => {
    const { stdout } = await run(['chat', 'escape', '--agent', 'worker']);
    expect(stdout).toContain('Said escape');
    // oxlint-disable-next-line no-control-regex -- what must not be there
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f\u202a-\u202e]/);
    const id = /^(t\d+)$/m.exec(stdout)?.[1] ?? '';
    // oxlint-disable-next-line no-control-regex -- what must not be there
    expect((await run(['show', id])).stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  });

  it('leaves a change waiting where its input ends, and resumes in any part', async () => {
    writeFileSync(join(folder, 'a.txt'), 'zero\n');
    const first = await run(['--agent', 'own', '--lines'], 'hello\nwrite it\n');
    expect(first).toMatchObject({ code: 1, stdout: expect.stringContaining('goes on waiting') });
    const id = /^(t\d+)$/m.exec(first.stdout)?.[1] ?? '';
    expect((await run(['show', id])).stdout).toMatch(/fs_write[\s\S]*It waits for you/);
    const resumed = await run(['--resume', id, '--lines'], 'y\n');
    expect(resumed.stdout).toContain('Replaced');
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
    expect(await run(['chat', ' '])).toMatchObject({ code: 2 });
    const slash = await run(['chat', '/etc is a folder', '--agent', 'own']);
    expect(slash.stdout).toContain('Said /etc is a folder');
  });

  it('says what is wrong, and with which exit code', async () => {
    expect(await run(['chat', 'fail', '--agent', 'worker'])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Ended:'),
    });
    expect(await run(['chatt'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("did you mean 'chat'"),
    });
    expect(await run(['show', 't999'])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("no task 't999'"),
    });
    expect(await run(['list', '--url', 'http://127.0.0.1:1'])).toMatchObject({ code: 3 });
    // A flag before the command is no prompt for an agent.
    expect((await run(['--url', url, 'pending'])).stdout).toBe('Nothing waits for you.\n');
    expect((await run(['--help'])).stdout).toContain('Without a command it is chat.');
  });

  it('lists and decides on what waits', async () => {
    writeFileSync(join(folder, 'a.txt'), 'zero\n');
    const task = await lathe().tasks.start(request('write it'));
    await until(async () => (await lathe().pending.list()).length > 0);
    const [, id = ''] = /^(p\d+) Replace/m.exec((await run(['pending'])).stdout) ?? [];
    expect(await run(['discard', id, '--note', 'no'])).toMatchObject({ code: 0 });
    expect(await task.answer()).toContain('They wrote: no');
    expect((await run(['pending'])).stdout).toBe('Nothing waits for you.\n');
  });
});
