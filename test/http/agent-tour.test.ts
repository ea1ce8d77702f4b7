/** Runs the commands of docs/agent-tour.md, and compares their output with the page. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildHost, freshDataDir, repository } from '../support/host.ts';

const page = readFileSync(join(repository, 'docs/agent-tour.md'), 'utf8');

/** Each command block with its expected output; empty when the page shows none. */
const steps = [...page.matchAll(/^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)].map(
  ([, commands = '', shown = '']) => ({ commands, shown }),
);

/** Marks the end of a block's output; no command of the page prints it. */
const mark = '== end of a block ==';
let printed: string[] = [];
let stderr = '';
let shell: ReturnType<typeof spawn> | undefined;

beforeAll(async () => {
  buildHost();
  const script = steps.map(({ commands }) => `${commands}\necho '${mark}'\n`).join('');
  // The shell leads a group, so that its host ends with it.
  const folder = freshDataDir();
  const file = join(folder, 'tour.sh');
  writeFileSync(file, script.replace(/^port=8080$/m, `port=${await freePort()}`));
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
    // It has ended by itself, as it should.
  }
});

it('has commands, and the port that the test replaces', () => {
  expect(steps.length).toBeGreaterThan(8);
  expect(page).toMatch(/^port=8080$/m);
});

it.each(steps.map(({ shown }, at) => ({ at, shown, name: steps[at]?.commands.trim().split('\n')[0] })))(
  'prints what it shows, from `$name`',
  ({ at, shown }) => {
    expect(printed[at], `${printed.join('')}\n${stderr}`).toMatch(patternOf(shown));
  },
);

/** `...` is any text within a line, and alone on a line any number of lines. */
function patternOf(shown: string): RegExp {
  const lines = shown.split('\n').slice(0, -1);
  const patterns = lines.map((line) =>
    line === '...' ? '(?:.*\\n)*?' : `${line.split('...').map(escaped).join('.*?')}\\n`,
  );
  return new RegExp(`^${patterns.join('')}$`);
}

const escaped = (text: string) => text.replace(/[^\w\s]/g, '\\$&');

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
