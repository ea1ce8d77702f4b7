import { execFile } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadHostKey } from '../../src/signing/host-key.ts';

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'lathe-key-'));
});
afterEach(async () => {
  await rm(dataDir, { recursive: true });
});

test('is made once, for the owner only, and is the same afterwards', async () => {
  const made = await loadHostKey(dataDir);
  expect(made.keyId).toMatch(/^ed25519:[0-9a-f]{16}$/);
  expect(await readdir(dataDir)).toEqual(['host.key']);
  expect((await stat(join(dataDir, 'host.key'))).mode & 0o777).toBe(0o600);
  const again = await loadHostKey(dataDir);
  expect([again.keyId, again.privateKey.equals(made.privateKey)]).toEqual([made.keyId, true]);
});

test('hosts that start at once get the same key', async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, () => loadHostKey(dataDir)));
  expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(1);
  expect(await readdir(dataDir)).toEqual(['host.key']);
});

test('so do processes', async () => {
  const module = new URL('../../src/signing/host-key.ts', import.meta.url).href;
  const script = `const { loadHostKey } = await import(${JSON.stringify(module)}); console.log((await loadHostKey(${JSON.stringify(dataDir)})).keyId);`;
  const run = promisify(execFile);
  const starts = Array.from({ length: 4 }, () =>
    run(process.execPath, ['--input-type=module', '--eval', script]),
  );
  const ids = new Set((await Promise.all(starts)).map(({ stdout }) => stdout.trim()));
  expect([...ids]).toEqual([(await loadHostKey(dataDir)).keyId]);
});

test('a folder that cannot be written to is a clear error', async () => {
  const file = join(dataDir, 'missing', 'host.key');
  await expect(loadHostKey(join(dataDir, 'missing'))).rejects.toMatchObject({
    name: 'HostKeyError',
    message: `${file} cannot be written: there is no such file.`,
  });
  await mkdir(file, { recursive: true });
  await expect(loadHostKey(join(dataDir, 'missing'))).rejects.toMatchObject({
    name: 'HostKeyError',
    message: `${file} cannot be read: it is a directory.`,
  });
});

const otherKind = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  type: 'pkcs8',
  format: 'pem',
});
test.each([
  ['empty', ''],
  ['no key', 'hello'],
  ['of another kind', otherKind],
])('a file that is %s is a clear error, and stays as it is', async (_, text) => {
  const file = join(dataDir, 'host.key');
  await writeFile(file, text);
  await expect(loadHostKey(dataDir)).rejects.toMatchObject({
    name: 'HostKeyError',
    message: expect.stringContaining(`${file} holds no Ed25519 key`),
  });
  expect(await readFile(file, 'utf8')).toBe(text);
});
