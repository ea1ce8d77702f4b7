import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const module = fileURLToPath(new URL('../../src/platform/node-restart.ts', import.meta.url));
const program = `
  const { restartWithFlags } = await import(${JSON.stringify(module)});
  restartWithFlags({ '--max-semi-space-size': '8' });
  console.log(JSON.stringify({ pid: process.pid, flags: process.execArgv.slice(0, -2), args: process.argv.slice(1) }));
`;

/** Runs a program that restarts with a flag. @returns what the last process of it writes */
async function run(nodeArgs: string[], { env = {}, ipc = false } = {}) {
  const child = spawn(
    process.execPath,
    [...nodeArgs, '--input-type=module', `--eval=${program}`, '--', 'serve'],
    {
      stdio: ['ignore', 'pipe', 'inherit', ...(ipc ? ['ipc' as const] : [])],
      env: { ...process.env, NODE_OPTIONS: '', ...env },
    },
  );
  const closed = once(child, 'close');
  const said = JSON.parse(child.stdout ? await text(child.stdout) : '') as Record<string, unknown>;
  await closed;
  return { ...said, isSameProcess: said['pid'] === child.pid, pid: undefined };
}

const same = { isSameProcess: true, args: ['serve'], pid: undefined };

it.skipIf(process.platform === 'win32')(
  'restarts with the flag, as the same process with the same arguments',
  async () => {
    expect(await run(['--no-warnings'])).toEqual({
      ...same,
      flags: ['--max-semi-space-size=8', '--no-warnings'],
    });
  },
);

it.each([
  ['the flag is set', ['--max_semi_space_size=4'], {}],
  ['NODE_OPTIONS has it', [], { env: { NODE_OPTIONS: '--max-semi-space-size=4' } }],
  ['the parent has an IPC channel', [], { ipc: true }],
])('does not restart where %s', async (_, nodeArgs, options) => {
  expect(await run(nodeArgs, options)).toEqual({ ...same, flags: nodeArgs });
});
