import { execFileSync, spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { mkdir, readFile, readdir, stat, symlink, writeFile } from 'node:fs/promises';
import net, { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text as readText } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { ToolContext } from '../../src/agent/tool.ts';
import type { BuiltinOptions } from '../../src/agent/tools/builtin/builtin-tools.ts';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';
import { CommandOutput } from '../../src/agent/tools/sandbox/command-output.ts';
import { SavedOutputs } from '../../src/agent/tools/sandbox/saved-outputs.ts';
import { truncateOutput } from '../../src/agent/turns/truncate-output.ts';
import { supportProgram } from '../support/host.ts';
import { toolWorlds, type ToolWorld } from '../support/agent-tools.ts';

const newWorld = toolWorlds();
const found = await Bubblewrap.probe();
const sandbox = (options: Partial<BuiltinOptions> = {}) => newWorld({ sandbox: found, ...options });

/** Runs a shell command, approved at once. */
async function shell(world: ToolWorld, script: string, args: object = {}, within?: ToolContext) {
  const call = { argv: ['sh', '-c', script], timeout_secs: 600, ...args };
  return await world.apply('run_command', await world.proposed('run_command', call, within));
}

const processes = (name: string): string[] =>
  execFileSync('ps', ['-eo', 'args'])
    .toString()
    .split('\n')
    .filter((line) => line.includes(name));

describe('Bubblewrap.probe', () => {
  it('returns the reason as a sentence when there is no sandbox', async () => {
    expect(await Bubblewrap.probe('no-such-bwrap')).toMatch(
      /^Commands run only inside bubblewrap, .* install bubblewrap/,
    );
    const world = await newWorld({ sandbox: 'Why not.' });
    expect(world.tool('run_command').unavailable?.()).toBe('Why not.');
  });
});

describe('Printed', () => {
  it('keeps the beginning and the end of the output, in chunks of any size', async () => {
    const all = Array.from({ length: 1000 }, (_, index) => `${index} `).join('');
    for (const size of [1, 7, 30, 31, 100, 10_000]) {
      for (const length of [0, 1, 29, 30, 59, 60, 61, 500, all.length]) {
        const text = all.slice(0, length);
        const saved: Buffer[] = [];
        const printed = new CommandOutput(30, () => ({
          path: 'output:x',
          add: (bytes) => saved.push(Buffer.from(bytes)),
          end: () => Promise.resolve(true),
        }));
        for (let at = 0; at < length; at += size) printed.add(Buffer.from(text.slice(at, at + size)));
        const expected =
          length <= 60
            ? text
            : `${text.slice(0, 30)}\n[${length - 60} bytes left out; fs_read of output:x has all lines]\n${text.slice(-30)}`;
        expect(await printed.text()).toBe(expected);
        expect(printed.truncated).toBe(length > 60);
        expect(Buffer.concat(saved).toString()).toBe(length > 60 ? text : '');
      }
    }
  });

  it('removes terminal escape sequences', async () => {
    const printed = new CommandOutput(100);
    printed.add(Buffer.from('\u001b[31mred\u001b[0m \u001b]0;title\u0007text\r\n'));
    expect(await printed.text()).toBe('red text\n');
  });
});

const why = typeof found === 'string' ? ` (${found})` : '';

describe.skipIf(typeof found === 'string')(`run_command${why}`, () => {
  it('runs in a working folder below /tmp where all of the disk is granted', async () => {
    const world = await sandbox();
    expect(world.granted).toMatch(/^\/tmp\//);
    await writeFile(join(world.granted, 'note'), 'here');
    const granting = (write: string[]) => world.context({ read: ['/'], write });
    const script = 'cat note; touch made && ls; ls /tmp | wc -l';
    const all = await shell(world, script, {}, granting(['/']));
    expect(all.output).toBe('exit code 0\nheremade\nnote\n1');
    const shown = await shell(world, 'cat note; touch made2', {}, granting([]));
    expect(shown).toMatchObject({ ok: false, output: expect.stringContaining('Read-only file system') });
  });

  it('stages exactly the command that will run', async () => {
    const world = await sandbox();
    const call = { argv: ['echo', 'a b', "it's", '\u001b[2J'] };
    const proposal = await world.proposed('run_command', call);
    expect(proposal).toMatchObject({
      kind: 'exec',
      intent: 'to test it',
      risk: 'high',
      path: world.granted,
      summary: `Run echo 'a b' 'it'\\''s' '\\u{1b}[2J' in ${world.granted}, for at most 60 s, in the sandbox.`,
    });
    expect(await world.apply('run_command', proposal)).toEqual({
      ok: true,
      output: "exit code 0\na b it's",
      truncated: false,
    });
  });

  it('reads granted paths, writes only to paths with write grants, and sees nothing else', async () => {
    const world = await sandbox();
    await writeFile(join(world.shown, 'in'), 'shown');
    await writeFile(join(world.outside, 'secret'), 'what nobody may read');
    const script = `cat ../shown/in > out; touch ../shown/no /no /usr/no /etc/no /dev/no /proc/no; ls ${world.outside}; ls /home /root /var /run /etc/shadow; cat ${world.outside}/secret; pwd`;
    const { output } = await shell(world, script);
    expect(await readFile(join(world.granted, 'out'), 'utf8')).toBe('shown');
    expect(await readdir(world.shown)).toEqual(['in']);
    expect(output).not.toContain('what nobody may read');
    expect(
      output.match(/No such file or directory|Read-only file system|cannot/g)?.length,
    ).toBeGreaterThanOrEqual(13);
    expect(output.endsWith(world.granted)).toBe(true);
  });

  it('sees no data, process or environment of the host, and no network', async () => {
    const server = net.createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    try {
      const first = await sandbox();
      const data = join(first.granted, 'data');
      await mkdir(data);
      await writeFile(join(data, 'operator.token'), 'what nobody may read');
      const world = await sandbox({ forbidden: [data] });
      const within = { ...world.context({ write: [first.granted] }), cwd: first.granted };
      const { port } = server.address() as AddressInfo;
      const script = `cat data/operator.token; touch data/x; env; ls /proc | grep -c '^[0-9]'; cat /proc/net/dev; bash -c 'cat < /dev/tcp/127.0.0.1/${port}'; kill -9 1`;
      const { output } = await shell(world, script, {}, within);
      expect(output).not.toContain('what nobody may read');
      expect(output).not.toContain('reached');
      expect(output).toContain('HOME=/tmp');
      expect(output.match(/^[A-Z]+=/gm)?.sort()).toEqual([
        'HOME=',
        'LANG=',
        'PATH=',
        'PWD=',
        'TERM=',
        'TMPDIR=',
      ]);
      expect(output).not.toMatch(/eth0|ens|wlan/);
      expect(await readdir(data)).toEqual(['operator.token']);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  it('has no rights over the machine, even if the host runs as root', async () => {
    const world = await sandbox();
    const script = `for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness; do (echo 0 > $f) 2>/dev/null && echo bad $f; done
      mount -t tmpfs none /tmp 2>/dev/null && echo bad mount; unshare -Ur true 2>/dev/null && echo bad namespace
      mknod /tmp/disk b 8 0 2>/dev/null && echo bad device; chroot / true 2>/dev/null && echo bad chroot
      grep CapEff /proc/self/status; (mount | grep -v ' /proc') >/dev/null`;
    const { output } = await shell(world, script);
    expect(output).not.toContain('bad');
    expect(output).toMatch(/CapEff:\s+0000000000000000/);
  });

  it('does not escape through links', async () => {
    const world = await sandbox();
    await writeFile(join(world.outside, 'secret'), 'what nobody may read');
    await symlink(world.outside, join(world.granted, 'door'));
    const { output } = await shell(world, 'cat door/secret; ls door/');
    expect(output).not.toContain('what nobody may read');
    expect(await world.propose('run_command', { argv: ['ls'], cwd: 'door' })).toMatchObject({ ok: false });
    // A grant that is itself a link counts as where it leads, under both names.
    await symlink(world.shown, join(world.folder, 'other'));
    await writeFile(join(world.shown, 'in'), 'shown');
    const within = world.context({ read: [join(world.folder, 'other')] });
    const twice = await shell(world, `cat ${world.folder}/other/in ${world.shown}/in`, {}, within);
    expect(twice.output).toBe('exit code 0\nshownshown');
  });

  it('reports how it ended', async () => {
    const world = await sandbox();
    expect(await shell(world, 'echo out; echo err >&2; exit 3')).toEqual({
      ok: false,
      output: expect.stringMatching(/^exit code 3\n(?:out\nerr|err\nout)$/),
      truncated: false,
    });
    const missing = { argv: ['no-such-program'] };
    expect(await world.apply('run_command', await world.proposed('run_command', missing))).toMatchObject({
      ok: false,
    });
    expect(await world.propose('run_command', { argv: ['a\0b'] })).toMatchObject({ ok: false });
    expect((await shell(world, 'kill -9 $$')).ok).toBe(false);
  });

  it('is ended at its timeout, with all its child processes', async () => {
    const world = await sandbox();
    const script = "trap '' TERM INT HUP; (setsid sleep 31415 &) ; nohup sleep 31415 & sleep 31415";
    expect(await shell(world, script, { timeout_secs: 1 })).toMatchObject({
      ok: false,
      output: expect.stringMatching(/^\[ended, because it did not end within 1 s\]/),
    });
    expect(processes('sleep 31415')).toEqual([]);
  });

  it('leaves no background process behind', async () => {
    const world = await sandbox();
    expect(await shell(world, '(setsid sleep 27182 &); sleep 27182 & echo done')).toMatchObject({
      ok: true,
      output: 'exit code 0\ndone',
    });
    expect(processes('sleep 27182')).toEqual([]);
  });

  it('is ended when the host stops it', async () => {
    const world = await sandbox();
    const { payload } = await world.proposed('run_command', { argv: ['sleep', '16180'] });
    const tool = world.tool('run_command');
    if (tool.kind !== 'change') throw new Error('no change');
    const stopping = new AbortController();
    const running = tool.apply(payload, stopping.signal);
    stopping.abort(new Error('stopped'));
    await expect(running).rejects.toThrow('stopped');
    expect(processes('sleep 16180')).toEqual([]);
  });

  it('is ended at any moment of its start', async () => {
    const world = await sandbox();
    const { payload } = await world.proposed('run_command', { argv: ['sleep', '17320'] });
    const tool = world.tool('run_command');
    if (tool.kind !== 'change') throw new Error('no change');
    for (let ms = 0; ms < 30; ms += 1) {
      const stopping = new AbortController();
      const running = tool.apply(payload, stopping.signal);
      await new Promise((resolve) => setTimeout(resolve, ms));
      stopping.abort(new Error('stopped'));
      await expect(running).rejects.toThrow('stopped');
    }
    expect(processes('sleep 17320')).toEqual([]);
  });

  it('limits endless output', async () => {
    const world = await sandbox({ sandboxLimits: { printedBytes: 8 * 1024 * 1024 } });
    const yes = await shell(world, 'yes');
    expect(yes).toMatchObject({ ok: false, truncated: true });
    expect(yes.output).toMatch(/^\[ended, because it printed more than 8388608 bytes\]\ny\n/);
    expect(yes.output.length).toBeLessThan(40_000);
    const big = await shell(world, 'head -c 4000000 /dev/zero | tr "\\0" x; echo; echo the end');
    expect(big.ok).toBe(true);
    expect(big.output).toMatch(/bytes left out\]\nx+\nthe end$/);
  });

  it('shows the beginning and the end of a long output, and its task reads the rest by line', async () => {
    const first = await sandbox();
    const outputs = new SavedOutputs(join(first.folder, 'outputs'));
    const world = await sandbox({ outputs });
    const within = { ...world.context(), taskId: 'task_1' };
    const run = await shell(world, 'seq 1 20000; printf "\\377\\0\\033[1mend"', {}, within);
    const { output } = truncateOutput(run);
    expect(output).toMatch(/^exit code 0\n1\n2\n[^]*\n20000\n\uFFFDend$/);
    const [, path = ''] =
      /\n\[\d+ bytes left out; fs_read of (output:\w+) has all lines\]\n/.exec(output) ?? [];
    const read = (by: ToolContext, start: number) =>
      world.run('fs_read', { path, start_line: start, lines: 3 }, by);
    expect((await read(within, 9999)).output).toBe(
      '9999\n10000\n10001\n[lines 9999 to 10001; there is more: start_line 10002]',
    );
    expect((await read(within, 20_000)).output).toBe('20000\n\uFFFDend');
    const missing = `${path}: there is no such output of this task.`;
    for (const other of [
      { ...within, taskId: 'task_2' },
      { ...world.context(), runId: 'task_1/..' },
    ])
      expect(await read(other, 1)).toMatchObject({ ok: false, output: missing });
    // Without the tool that reads it, nothing is saved.
    const noReader = { ...within, grants: { ...within.grants, tools: ['run_command'] } };
    expect((await shell(world, 'seq 1 20000', {}, noReader)).output).toMatch(/ bytes left out\]\n/);
  });

  it('leaves no file open when it is stopped after a long output', async () => {
    const first = await sandbox();
    const folder = join(first.folder, 'outputs');
    const world = await sandbox({ outputs: new SavedOutputs(folder) });
    const within = { ...world.context(), taskId: 'task_1' };
    const argv = ['sh', '-c', 'seq 1 20000; sleep 16181'];
    const { payload } = await world.proposed('run_command', { argv }, within);
    const tool = world.tool('run_command');
    if (tool.kind !== 'change') throw new Error('no change');
    const stopping = new AbortController();
    const running = tool.apply(payload, stopping.signal);
    const open = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder);
        } catch {
          return false;
        }
      }).length;
    await expect.poll(open).toBe(1);
    stopping.abort(new Error('stopped'));
    await expect(running).rejects.toThrow('stopped');
    expect(open()).toBe(0);
  });

  it('keeps few outputs of a task, for a day', async () => {
    const folder = join((await sandbox()).folder, 'outputs');
    const outputs = new SavedOutputs(folder);
    for (let turn = 0; turn < 12; turn++) {
      const saved = outputs.create('task_1');
      saved?.add(Buffer.alloc(9 * 1024 * 1024));
      saved?.add(Buffer.alloc(9 * 1024 * 1024));
      expect(await saved?.end()).toBe(false);
    }
    const files = await readdir(join(folder, 'task_1'));
    expect(files).toHaveLength(8);
    expect((await stat(join(folder, 'task_1', files[0] ?? ''))).size).toBe(16 * 1024 * 1024);
    const day = 24 * 60 * 60 * 1000;
    outputs.sweep(Date.now() + day - 60_000);
    expect(await readdir(join(folder, 'task_1'))).toHaveLength(8);
    outputs.sweep(Date.now() + day + 60_000);
    expect(await readdir(folder)).toEqual([]);
  });

  it('keeps nothing that other programs run, if nobody approved it', async () => {
    const world = await sandbox();
    const at = (name: string) => join(world.granted, name);
    await mkdir(at('.git/hooks'), { recursive: true });
    await mkdir(at('.github/workflows'), { recursive: true });
    await writeFile(at('.git/hooks/pre-push'), 'mine', { mode: 0o755 });
    await writeFile(at('.git/config'), '[core]\n\tbare = false\n');
    await writeFile(at('.github/workflows/ci.yml'), 'mine');
    await writeFile(at('package.json'), '{"scripts":{"test":"vitest"},"version":"1"}');
    const script = `echo evil > .git/hooks/pre-commit; echo evil > .git/hooks/pre-push; touch .git/hooks/x.sample
      printf '[core]\\n\\tfsmonitor = evil\\n' > .git/config; rm .github/workflows/ci.yml; ln -s ../evil .github/workflows/ci.yml
      ln -s evil .vscode; mkdir -p deep/.ssh .circleci target/objects/.vscode; echo x > target/objects/.vscode/tasks.json; echo key > deep/.ssh/authorized_keys; echo x > .BASHRC
      echo '{"scripts":{"test":"vitest"},"version":"2"}' > package.json; mkdir a; echo '{"scripts":{"postinstall":"evil"}}' > a/package.json
      echo fine > notes.txt`;
    const run = async (approval: 'person' | 'grants') => {
      const { payload } = await world.proposed('run_command', { argv: ['sh', '-c', script] });
      const tool = world.tool('run_command');
      if (tool.kind !== 'change') throw new Error('no change');
      return await tool.apply(payload, new AbortController().signal, approval);
    };
    const { ok, output } = await run('grants');
    expect(ok).toBe(false);
    const lines = output.split('\n').slice(1).toSorted();
    const line = (name: string, what: string) =>
      `[${at(name)} was ${what}, and nobody approved this command]`;
    expect(lines).toEqual(
      [
        line('.BASHRC', 'removed again: a shell runs it when it starts'),
        line('.git/config', 'restored: git runs programs that it names'),
        line('.git/hooks/pre-commit', 'removed again: git runs it'),
        line('.git/hooks/pre-push', 'restored: git runs it'),
        line('.github/workflows/ci.yml', 'restored: a link, or too large to be looked at'),
        line('.vscode', 'removed again: a link, or too large to be looked at'),
        line('a/package.json', 'removed again: npm runs its scripts'),
        line('target/objects/.vscode/tasks.json', 'removed again: an editor runs what it names'),
        line('deep/.ssh/authorized_keys', 'removed again: it decides who may log in, and what runs then'),
      ].toSorted(),
    );
    expect(await readFile(at('.git/hooks/pre-push'), 'utf8')).toBe('mine');
    expect((await stat(at('.git/hooks/pre-push'))).mode & 0o777).toBe(0o755);
    expect(await readFile(at('.git/config'), 'utf8')).toBe('[core]\n\tbare = false\n');
    expect(await readFile(at('.github/workflows/ci.yml'), 'utf8')).toBe('mine');
    expect(await readFile(at('package.json'), 'utf8')).toContain('"version":"2"');
    expect(await readFile(at('notes.txt'), 'utf8')).toBe('fine\n');
    expect(await readdir(at('.git/hooks'))).toEqual(['pre-push', 'x.sample']);
    // A person who approves a command approves all of it.
    expect(await run('person')).toMatchObject({ ok: true });
    expect(await readFile(at('.git/hooks/pre-commit'), 'utf8')).toBe('evil\n');
  });

  it('runs without descriptors that the host inherited', async () => {
    const secret = join((await sandbox()).folder, 'secret');
    await writeFile(secret, 'what nobody may read');
    const file = openSync(secret, 'r+');
    const numbers = [3, 7, 27, 251, 1023];
    const stdio = Array.from({ length: 1024 }, (_, fd) =>
      fd === 1 ? 'pipe' : numbers.includes(fd) ? file : 'ignore',
    );
    const host = spawn(
      process.execPath,
      ['--no-warnings', supportProgram('inheriting-owner'), ...numbers.map(String)],
      {
        stdio,
      },
    );
    closeSync(file);
    const output = await readText(host.stdio[1] as Readable);
    expect(output).toMatch(/^exit code 0\n/);
    expect(output).toContain('it ended');
    expect(output).not.toContain('what nobody may read');
    expect(await readFile(secret, 'utf8')).toBe('what nobody may read');
  });

  it('is ended when it starts too many processes or uses too much memory', async () => {
    const world = await sandbox({ sandboxLimits: { processes: 40, totalBytes: 100 * 1024 * 1024 } });
    expect(
      await shell(world, 'i=0; while [ $i -lt 300 ]; do sleep 14142 & i=$((i+1)); done; wait'),
    ).toMatchObject({
      ok: false,
      // Watched, or counted by the kernel, whichever is first.
      output: expect.stringMatching(/it started more than 40 processes|[Cc]annot fork/),
    });
    const bomb = await shell(world, 'f() { f | f & }; f; sleep 14142', { timeout_secs: 3 });
    expect(bomb.ok).toBe(false);
    expect(processes('sleep 14142')).toEqual([]);
    const hungry = 'x=$(head -c 300000000 /dev/zero | tr "\\0" x); sleep 14142';
    expect(await shell(world, hungry)).toMatchObject({ output: expect.stringContaining('bytes of memory') });
  });

  it('cannot fill disk or memory through files', async () => {
    const world = await sandbox({ sandboxLimits: { fileBytes: 1024 * 1024, scratchBytes: 1024 * 1024 } });
    const { output } = await shell(
      world,
      'head -c 9000000 /dev/zero > big; for d in /tmp /dev/shm; do for i in 1 2 3; do head -c 900000 /dev/zero > $d/$i || echo full $d; done; done; stat -c %s big',
    );
    expect(output).toContain('full /tmp');
    expect(output).toContain('full /dev/shm');
    expect(output).toMatch(/\b1048576$/);
  });
});
