/** A host and a gateway whose terminal closes: repeated SIGHUP, and output that is not read. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { gatewayCommand, gatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import {
  freshDataDir,
  gatewayProgram,
  type HostProcess,
  startScriptedHost,
  startSource,
} from '../support/host.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0)) await step();
});
const ended = (host: HostProcess): HostProcess => {
  undo.push(() => host.end());
  return host;
};

it('a host ends in order at SIGHUP: its streams say why, and host.pid is gone', async () => {
  const dataDir = freshDataDir();
  const host = ended(
    startScriptedHost(['--gpu', '--port', '0', '--data-dir', dataDir], { pieces: 1_000_000, delayMs: 20 }),
  );
  const url = await host.url();
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted', stream: true, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  expect(answer.status).toBe(200);
  expect(existsSync(join(dataDir, 'host.pid'))).toBe(true);
  host.kill('SIGHUP');
  host.kill('SIGHUP');
  expect(await answer.text()).toContain('"code":"shutting_down"');
  expect(await host.exit).toEqual({ code: 0, signal: null });
  expect(existsSync(join(dataDir, 'host.pid'))).toBe(false);
});

it('a host whose output is no longer read also shuts down cleanly', async () => {
  const dataDir = freshDataDir();
  const host = ended(startSource(['--port', '0', '--data-dir', dataDir]));
  await host.url();
  host.closeOutput();
  host.kill('SIGHUP');
  expect(await host.exit).toEqual({ code: 0, signal: null });
  expect(existsSync(join(dataDir, 'host.pid'))).toBe(false);
});

const catalog = () =>
  writeConfig([{ id: 'small', wire: 'openai-chat', baseUrls: ['http://127.0.0.1:9/v1'] }]);

it('a gateway shuts down cleanly when its output is not read', async () => {
  const gateway = await gatewayProcess(catalog(), `sqlite:${join(freshDataDir(), 'gateway.db')}`);
  undo.push(() => gateway.end());
  gateway.closeOutput();
  gateway.kill('SIGTERM');
  expect(await gateway.exit).toEqual({ code: 0, signal: null });
});

// Without a terminal, SIGHUP reloads the configuration (gateway-reload.test.ts).
it.skipIf(process.platform !== 'linux')('a gateway ends when its terminal closes', async () => {
  const database = join(freshDataDir(), 'gateway.db');
  const words = [process.execPath, gatewayProgram, 'serve', '--config', catalog(), '--port', '0'];
  const command = `HOUSE_KEY=sk-house ${[...words, '--database', `sqlite:${database}`].join(' ')} & echo "pid $!"; wait; exec sleep 60`;
  const terminal = spawn('script', ['-qefc', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'ignore'] });
  undo.push(() => Promise.resolve(terminal.kill('SIGKILL')));
  let text = '';
  terminal.stdout.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  await expect.poll(() => text, { timeout: 60_000 }).toContain('lathe gateway ready');
  const pid = Number(/pid (\d+)/.exec(text)?.[1]);
  terminal.kill('SIGKILL');
  const isRunning = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await expect.poll(isRunning, { timeout: 60_000 }).toBe(false);
  expect(await gatewayCommand(`sqlite:${database}`, 'ledger', 'audit')).toMatchObject({ ok: true });
});
