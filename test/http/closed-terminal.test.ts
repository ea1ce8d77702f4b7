/** A host and a gateway whose terminal closes: repeated SIGHUP, and output that is not read. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { gatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { freshDataDir, type HostProcess, startScriptedHost, startSource } from '../support/host.ts';

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

it('a gateway shuts down cleanly at SIGHUP, also when its output is not read', async () => {
  const gateway = await gatewayProcess(
    writeConfig([{ id: 'small', wire: 'openai-chat', baseUrls: ['http://127.0.0.1:9/v1'] }]),
    `sqlite:${join(freshDataDir(), 'gateway.db')}`,
  );
  undo.push(() => gateway.end());
  gateway.closeOutput();
  gateway.kill('SIGHUP');
  gateway.kill('SIGHUP');
  expect(await gateway.exit).toEqual({ code: 0, signal: null });
});
