import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { responseObject } from '../../src/wires/responses/answer-schema.ts';
import { freshDataDir, type HostProcess, startScriptedHost } from '../support/host.ts';
import { until } from '../support/until.ts';

// Stored responses across starts of the whole program.
const hosts: HostProcess[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.end()));
});

const route = '/v1/responses';

async function start(dataDir: string, flags: readonly string[], script: Record<string, unknown> = {}) {
  const host = startScriptedHost(['--gpu', '--port', '0', '--data-dir', dataDir, ...flags], script);
  hosts.push(host);
  const url = await host.url();
  const create = async (body: object) => {
    const response = await fetch(url + route, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return responseObject.parse(await response.json());
  };
  const get = async (id: string) => await fetch(`${url}${route}/${id}`);
  const stop = async () => {
    host.kill('SIGTERM');
    await host.exit;
  };
  return { host, create, get, stop };
}
const storing = ['--store-responses'];
const bytesOf = (dataDir: string) =>
  ['', '-wal'].map((suffix) => readFileSync(join(dataDir, `lathe.db${suffix}`), 'latin1')).join('');

test('what a killed host was answering in the background has failed after the next start', async () => {
  const dataDir = freshDataDir();
  const first = await start(dataDir, storing, { hang: true });
  const { id, status } = await first.create({ input: 'hi', background: true });
  expect(status).toBe('queued');
  first.host.kill('SIGKILL');
  await first.host.exit;
  const second = await start(dataDir, storing);
  expect(responseObject.parse(await (await second.get(id)).json())).toMatchObject({
    status: 'failed',
    error: { code: 'server_error', message: 'The host stopped before the response was finished.' },
  });
  const stored = await second.create({ input: 'hi' });
  await second.stop();
  const third = await start(dataDir, storing);
  expect(await (await third.get(stored.id)).json()).toEqual(stored);
});

test('a host that stops in order ends what it answers in the background', async () => {
  const dataDir = freshDataDir();
  const first = await start(dataDir, storing, { pieces: 1000, delayMs: 20 });
  const { id } = await first.create({ input: 'hi', background: true });
  await until(async () => responseObject.parse(await (await first.get(id)).json()).status === 'in_progress');
  await first.stop();
  const second = await start(dataDir, storing);
  expect(responseObject.parse(await (await second.get(id)).json())).toMatchObject({ status: 'failed' });
});

test('without the flag nothing is stored, but what is too old is deleted', async () => {
  const dataDir = freshDataDir();
  const first = await start(dataDir, storing);
  const { id } = await first.create({ input: 'an old secret' });
  const young = await first.create({ input: 'a young secret' });
  await first.stop();
  const database = new DatabaseSync(join(dataDir, 'lathe.db'));
  const old = new Date(Date.now() - 8 * 86_400_000).toISOString();
  database.prepare('update responses set created_at = ? where id = ?').run(old, id);
  database.close();
  const second = await start(dataDir, ['--response-retention', '7']);
  expect((await second.create({ input: 'no secret' })).store).toBe(false);
  expect(await (await second.get(young.id)).text()).toContain('--store-responses');
  const bytes = bytesOf(dataDir);
  expect(bytes).not.toContain('an old secret');
  expect(bytes).not.toContain('no secret');
  expect(bytes).toContain('a young secret');
  await second.stop();
  const third = await start(dataDir, [...storing, '--response-retention', '7']);
  expect([(await third.get(id)).status, (await third.get(young.id)).status]).toEqual([404, 200]);
});
