/** The agent's client on a terminal and in pipes, over a real host and a scripted model. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Lathe } from '../../src/client/index.ts';
import { entryPath, freshDataDir, type HostProcess, repository, startSource } from '../support/host.ts';
import { hasPty, runOnTerminal } from '../support/pty.ts';
import { scriptedOpenAi } from '../support/scripted-openai.ts';
import { until } from '../support/until.ts';

let gateway: Awaited<ReturnType<typeof scriptedOpenAi>>;
let host: HostProcess;
let url = '';
let folder = '';
const dataDir = freshDataDir();
const config = join(mkdtempSync(join(tmpdir(), 'lathe-terminal-')), 'lathe.toml');
const lathe = () => new Lathe({ url });
const agent = entryPath('agent');
const command = `node ${agent}`;

const start = async (port = '0') => {
  host = startSource(['--config', config, '--data-dir', dataDir, '--port', port]);
  url = await host.url();
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lathe-terminal-'));
  const call = (name: string, args: object) => ({
    calls: [{ name, arguments: { intent: 'asked', ...args } }],
  });
  gateway = await scriptedOpenAi(({ body: { messages } }) => {
    const at = messages.findLastIndex(({ role }) => role === 'user');
    const prompt = messages[at]?.content ?? '';
    const turns = messages.slice(at).filter(({ role }) => role === 'assistant').length;
    const isLater = turns > 0;
    if (prompt.includes('empty')) return { text: '' };
    if (prompt.includes('write') && !isLater)
      return call('fs_write', { path: 'a.txt', content: `one\n${'more\n'.repeat(6)}` });
    if (prompt.includes('twice') && turns < 2) return call('run_command', { argv: ['echo', 'hi'] });
    if (prompt.includes('read') && !isLater)
      return { calls: [{ name: 'fs_read', arguments: { path: 'a.txt' } }] };
    return { text: `Said ${JSON.stringify(prompt)}.` };
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

const run = async (args: readonly string[], input = '', cwd = folder) => {
  const env = { ...process.env, LATHE_URL: url, NO_COLOR: '1' };
  const child = spawn(process.execPath, [agent, ...args], { cwd, env });
  child.stdin.end(input);
  const closed = once(child, 'close');
  const [stdout, stderr, [code]] = await Promise.all([
    readText(child.stdout),
    readText(child.stderr),
    closed,
  ]);
  return { code: code as number, stdout, stderr };
};

describe('a pipe', () => {
  it('follows the prompt, or is the prompt', async () => {
    const both = await run(['chat', 'review this', '--agent', 'worker'], '-a\n+b\n');
    expect(both.stdout).toContain('Said "review this\\n\\n-a\\n+b".');
    const alone = await run(['--agent', 'worker'], '/first\nsecond\n\nthird\n');
    expect(alone).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Said "/first\\nsecond\\n\\nthird".'),
    });
    expect(alone.stdout.match(/Said/g)).toHaveLength(1);
    expect(await run(['--agent', 'worker'], ' \n')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('there is no prompt'),
    });
  });

  it('leaves a change pending, and says with which command to go on', async () => {
    const { code, stdout } = await run(['chat', '--agent', 'worker'], 'write it');
    expect(code).toBe(1);
    const id = /^(t\d+)$/m.exec(stdout)?.[1] ?? '';
    expect(stdout).toContain(`${id} goes on waiting: ${command} --resume ${id}\n`);
    expect(stdout).toContain('+++ b/a.txt\n');
    expect((await run(['list', '--state', 'waiting'])).stdout).toMatch(
      new RegExp(`^${id} +worker +waiting`, 'm'),
    );
    const pending = await run(['pending']);
    expect(pending.stdout).toContain(`Of worker in ${id}\n`);
    const change = /^(p\d+) /m.exec(pending.stdout)?.[1] ?? '';
    const late = await run(['--resume', id], 'a further message');
    expect(late).toMatchObject({ code: 1, stdout: expect.stringContaining('The message was not sent.') });
    expect((await run(['stop', id])).stdout).toBe(
      `${change} stays pending: ${command} approve ${change}, or discard ${change}.\n${id} has ended.\n`,
    );
    expect(await run(['discard', change, 'p999', '--note', 'no'])).toMatchObject({
      code: 3,
      stdout: `${change} was declined; nothing was changed.\n`,
      stderr: expect.stringContaining('p999'),
    });
  });

  it('shows an empty answer as a failure, and whole outputs with show', async () => {
    expect(await run(['chat', 'empty', '--agent', 'worker'])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('(The model answered nothing.)'),
    });
    writeFileSync(join(folder, 'a.txt'), '1\n2\n3\n4\n5\n6\n');
    const { stdout } = await run(['chat', 'read it', '--agent', 'worker']);
    const id = /^(t\d+)$/m.exec(stdout)?.[1] ?? '';
    expect(stdout).toContain(`  ... 2 more lines: ${command} show ${id}\n`);
    expect((await run(['show', id])).stdout).toContain('  4\n  5\n  6\n');
    const { events } = JSON.parse((await run(['show', id, '--json'])).stdout) as {
      events: { type: string }[];
    };
    expect(events.map(({ type }) => type)).toContain('tool_result');
  });

  it('says what is wrong with its folder, and what an agent does without asking', async () => {
    const gone = mkdtempSync(join(tmpdir(), 'lathe-gone-'));
    const child = spawn('sh', ['-c', `rmdir "$PWD" && exec "$0" "$@"`, process.execPath, agent, 'list'], {
      cwd: gone,
      env: { ...process.env, LATHE_URL: url },
    });
    const [stderr, [code]] = await Promise.all([readText(child.stderr), once(child, 'close')]);
    expect({ stderr, code }).toEqual({
      stderr: expect.stringMatching(/^lathe agent: the working folder does not exist any more.*\nSee: /),
      code: 2,
    });
    await lathe().agents.put({
      name: 'free',
      model: 'resident',
      instructions: 'Work.',
      grants: { tools: ['*'], read: [], write: [], network: ['example.com'], auto_approve: ['run_command'] },
    });
    expect((await run(['agents'])).stdout).toMatch(/^free +resident +\* +run_command +example\.com$/m);
    expect((await run(['--help'])).stdout).toContain(`Usage: ${command} [COMMAND]`);
  });
});

describe.skipIf(!agent.endsWith('.js'))('what package.json installs', () => {
  it('are programs, which name themselves in hints as they were called', async () => {
    const { bin } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
      bin: Record<string, string>;
    };
    for (const path of Object.values(bin)) {
      const file = join(repository, path);
      expect(readFileSync(file, 'utf8').split('\n')[0], path).toBe('#!/usr/bin/env node');
      expect(statSync(file).mode & 0o111, path).toBe(0o111);
    }
    const folderOfBin = mkdtempSync(join(tmpdir(), 'lathe-bin-'));
    symlinkSync(join(repository, bin['lathe-agent'] ?? ''), join(folderOfBin, 'lathe-agent'));
    const searchPath = `${folderOfBin}:${dirname(process.execPath)}:${process.env['PATH']}`;
    const child = spawn(join(folderOfBin, 'lathe-agent'), ['--help'], {
      cwd: folder,
      env: { PATH: searchPath },
    });
    expect(await readText(child.stdout)).toContain('Usage: lathe-agent [COMMAND]');
  });
});

describe.skipIf(!hasPty)('a terminal', () => {
  const open: ReturnType<typeof runOnTerminal>[] = [];
  const chat = async (args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) => {
    writeFileSync(join(folder, 'a.txt'), '1\n2\n3\n4\n5\n6\n');
    const terminal = runOnTerminal([process.execPath, agent, '--agent', 'worker', ...args], {
      cwd: folder,
      env: { LATHE_URL: url, NO_COLOR: '1', ...env },
    });
    open.push(terminal);
    await terminal.see(/> /);
    return terminal;
  };
  /** The change that a terminal is asked about. */
  const question = async (terminal: ReturnType<typeof runOnTerminal>, what = 'Make this change') => {
    const [, id = ''] = await terminal.see(/(p\d+) \w+ /);
    await terminal.see(new RegExp(`${what}\\?.*: `));
    return id;
  };
  afterEach(async () => {
    for (const terminal of open.splice(0)) await terminal.end();
  });

  it('sends what is pasted as one message, shows whole outputs, and ends at the second Ctrl-C', async () => {
    const terminal = await chat();
    terminal.type('\u001b[200~first\nsecond\u001b[201~\r');
    await terminal.see(/Said "first\\nsecond"\./);
    await terminal.see(/> /);
    terminal.type('\u001b[A\r');
    await terminal.see(/Said "first\\nsecond"\./);
    await terminal.see(/> /);
    terminal.type('read it\r');
    await terminal.see(/\/output 1/);
    await terminal.see(/> /);
    terminal.type('/output\r/help\r');
    await terminal.see(/\r\n6\r\n/);
    await terminal.see(/\/tasks +list tasks/);
    await terminal.see(/> /);
    terminal.type('\u0003');
    await terminal.see(/Ctrl-C again ends the chat/);
    await terminal.see(/> /);
    terminal.type('\u0003');
    expect(await terminal.exitCode()).toBe(0);
    expect(terminal.output.lastIndexOf('\u001b[?2004l')).toBeGreaterThan(
      terminal.output.lastIndexOf('\u001b[?2004h'),
    );
  });

  it('leaves a question at Ctrl-C, asks again, and stops the task at the second', async () => {
    const terminal = await chat();
    terminal.type('write it\r');
    const id = await question(terminal);
    terminal.type('\u0003');
    await terminal.see(new RegExp(`${id} stays pending: .* approve ${id}, or discard ${id}`));
    await terminal.see(/Enter asks again/);
    terminal.type('\r');
    await terminal.see(/Make this change\?.*: /);
    terminal.type('n\r');
    await terminal.see(/Why not\?.*: /);
    terminal.type('\u0003');
    await terminal.see(/Make this change\?.*: /);
    terminal.type('\u0003');
    await terminal.see(/Enter asks again.*: /);
    terminal.type('\u0003');
    await terminal.see(/stays pending/);
    await terminal.see(/Stopped: /);
    await terminal.see(/> /);
    expect(await lathe().pending.get(id)).toMatchObject({ state: 'staged' });
    terminal.type('/exit\r');
    expect(await terminal.exitCode()).toBe(0);
    await lathe().pending.discard(id);
  });

  it('ends at /exit, and the change goes on waiting', async () => {
    const terminal = await chat();
    terminal.type('write it\r');
    const id = await question(terminal);
    terminal.type('/exit\r');
    await terminal.see(/goes on waiting/);
    expect(await terminal.exitCode()).toBe(0);
    await lathe().pending.discard(id);
  });

  it('keeps an edited text, and sends no late answer, where somebody else decides', async () => {
    const started = join(folder, 'started');
    const go = join(folder, 'go');
    const terminal = await chat([], {
      EDITOR: `sh -c 'echo mine > "$1"; touch ${started}; while [ ! -e ${go} ]; do sleep 0.05; done' sh`,
    });
    terminal.type('write it\r');
    const id = await question(terminal);
    terminal.type('e\r');
    await until(() => existsSync(started));
    await lathe().pending.approve(id);
    writeFileSync(go, '');
    const [, file = ''] = await terminal.see(/Your text was not used: .*It is in (\S+)\.\r/s);
    expect(readFileSync(file, 'utf8')).toBe('mine\n');
    await terminal.see(/Said "write it"/);
    await terminal.see(/> /);

    writeFileSync(join(folder, 'a.txt'), 'zero\n');
    terminal.type('write it\r');
    const other = await question(terminal);
    await lathe().pending.discard(other, { note: 'no' });
    await terminal.see(new RegExp(`${other} was decided elsewhere`));
    await terminal.see(/Said "write it"/);
    await terminal.see(/> /);
    terminal.type('y\r');
    await terminal.see(/'y' was not sent/);
    terminal.type('y\r');
    await terminal.see(/Said "y"\./);
  });

  it('asks again after a restart of the host', async () => {
    const terminal = await chat();
    terminal.type('write it\r');
    const id = await question(terminal);
    const { port } = new URL(url);
    host.kill('SIGKILL');
    await host.exit;
    await start(port);
    await terminal.see(/The host was started again/);
    expect(await question(terminal)).toBe(id);
    terminal.type('n no\r');
    await terminal.see(/Said "write it"/);
  });

  it('runs a command always that was allowed once', async () => {
    const tool = (await (await fetch(`${url}/agent/v1/tools`)).json()) as { name: string; state: string }[];
    if (tool.find(({ name }) => name === 'run_command')?.state === 'unavailable') return;
    const terminal = await chat();
    terminal.type('twice\r');
    await question(terminal, 'Run this command');
    terminal.type('a\r');
    await terminal.see(/Approved: you always allow this command/);
    await terminal.see(/Said "twice"/);
  });
});
