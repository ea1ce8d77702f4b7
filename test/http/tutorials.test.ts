/** docs/tutorials: the commands, as they stand there, print what stands there. (first-page.md: test/browser/engine.test.ts.) */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildHost, freshDataDir, repository } from '../support/host.ts';
import { freePort } from '../support/local-server.ts';

/** Ends the output of one block; no command of the pages prints it. */
const mark = '== end of a block ==';

describe.each([
  { name: 'first-kernel', ports: ['port=8080'], blocks: 7 },
  { name: 'first-agent', ports: ['port=8080'], blocks: 8 },
  { name: 'first-gateway-key', ports: ['port=8080', 'gateway_port=8090'], blocks: 6 },
  {
    name: 'operate-a-gateway',
    ports: ['port=8080', 'gateway_port=8090', 'operator_port=9100'],
    blocks: 11,
  },
])('the page $name of docs/tutorials', ({ name, ports, blocks }) => {
  const page = readFileSync(join(repository, `docs/tutorials/${name}.md`), 'utf8');
  /** Each block of commands with its output; an empty text where the page shows none. */
  const steps = [...page.matchAll(/^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)].map(
    ([, commands = '', shown = '']) => ({ commands, shown }),
  );
  let printed: string[] = [];
  let stderr = '';
  let shell: ReturnType<typeof spawn> | undefined;

  beforeAll(async () => {
    buildHost();
    let script = steps.map(({ commands }) => `${commands}\necho '${mark}'\n`).join('');
    for (const port of ports)
      script = script.replace(new RegExp(`^${port}$`, 'm'), `${port.split('=')[0]}=${await freePort()}`);
    const folder = freshDataDir();
    const file = join(folder, 'tutorial.sh');
    writeFileSync(file, script);
    // The shell leads a process group, so that its host ends with it.
    shell = spawn('bash', [file], {
      cwd: repository,
      env: { ...process.env, TMPDIR: folder },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    shell.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    shell.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    await once(shell, 'close');
    printed = stdout.split(`${mark}\n`);
  });
  afterAll(() => {
    try {
      if (shell?.pid !== undefined) process.kill(-shell.pid, 'SIGKILL');
    } catch {
      // The shell has ended by itself, as it should.
    }
  });

  it('has its blocks of commands, and the ports that the test replaces', () => {
    expect(steps.length).toBeGreaterThanOrEqual(blocks);
    for (const port of ports) expect(page).toMatch(new RegExp(`^${port}$`, 'm'));
  });

  it.each(steps.map(({ shown }, at) => ({ at, shown, line: steps[at]?.commands.trim().split('\n')[0] })))(
    'prints what it shows, from `$line`',
    ({ at, shown }) => {
      expect(printed[at], `${printed.join('')}\n${stderr}`).toMatch(patternOf(shown));
    },
  );
});

/** `...` is any text within a line, and alone on a line any number of lines. */
function patternOf(shown: string): RegExp {
  const lines = shown.split('\n').slice(0, -1);
  const patterns = lines.map((line) =>
    line === '...' ? '(?:.*\\n)*?' : `${line.split('...').map(escaped).join('.*?')}\\n`,
  );
  return new RegExp(`^${patterns.join('')}$`);
}

const escaped = (text: string) => text.replace(/[^\w\s]/g, '\\$&');
