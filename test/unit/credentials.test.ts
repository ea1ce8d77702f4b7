import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCredentials } from '../../src/cli/credentials.ts';
import { hashSecret } from '../../src/signing/secret.ts';

let dataDir = '';
let notices: string[] = [];
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'lathe-credentials-'));
  notices = [];
});
afterEach(async () => {
  await rm(dataDir, { recursive: true });
});
const open = (bearer?: string) => openCredentials(dataDir, bearer, (text) => notices.push(text));
const file = (name: string) => join(dataDir, name);
const read = async (name: string) => (await readFile(file(name), 'utf8')).trim();
const modeOf = async (name: string) => (await stat(file(name))).mode & 0o777;

test('both are made once, for the owner only, and kept', async () => {
  const made = await open();
  expect((await readdir(dataDir)).sort()).toEqual(['bearer.token', 'operator.token']);
  for (const name of ['bearer.token', 'operator.token']) expect(await modeOf(name)).toBe(0o600);
  const [bearer, operator] = [await read('bearer.token'), await read('operator.token')];
  expect(bearer).toMatch(/^lathe_bearer_[\w-]{43}$/);
  expect(operator).toMatch(/^lathe_operator_[\w-]{43}$/);
  const hashes = { bearerHash: hashSecret(bearer), operatorHash: hashSecret(operator) };
  expect(made).toEqual({ ...hashes, tokens: [bearer, operator] });
  expect(await open()).toEqual(made);
  expect(notices).toEqual([]);
});

test('hosts that start at once have the same ones', async () => {
  const all = await Promise.all(Array.from({ length: 20 }, () => open()));
  expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(1);
  expect((await readdir(dataDir)).sort()).toEqual(['bearer.token', 'operator.token']);
});

test('a named token counts instead, and none is made', async () => {
  const given = 'a-token-of-our-own';
  expect((await open(given)).bearerHash).toBe(hashSecret(given));
  expect(await readdir(dataDir)).toEqual(['operator.token']);
  for (const bad of ['short', 'with a space in it', 'ünïcode-ünïcode-ünïcode', 'x'.repeat(1025)]) {
    const error = await open(bad).catch((refused: unknown) => refused as Error);
    expect(error).toMatchObject({ name: 'StartError', message: expect.stringMatching(/bearer-token-file/) });
    expect((error as Error).message).not.toContain(bad);
  }
});

test('a file that others may read is closed to them, with a notice', async () => {
  const made = await open();
  await chmod(file('bearer.token'), 0o644);
  await chmod(file('operator.token'), 0o620);
  expect(await open()).toEqual(made);
  for (const name of ['bearer.token', 'operator.token']) expect(await modeOf(name)).toBe(0o600);
  expect(notices).toEqual([expect.stringContaining('mode 644'), expect.stringContaining('mode 620')]);
  for (const notice of notices) expect(notice).not.toContain(await read('bearer.token'));
});

test('an empty file means that there is none, with a notice', async () => {
  await writeFile(file('bearer.token'), '\n', { mode: 0o600 });
  expect((await open()).bearerHash).toBeUndefined();
  expect(notices).toEqual([expect.stringContaining('is empty')]);
});

test.each(['two words here and more', 'short', `${'x'.repeat(40)}\n${'y'.repeat(40)}`])(
  'a file of %j is refused, without repeating it',
  async (text) => {
    await writeFile(file('operator.token'), text, { mode: 0o600 });
    const error = await open().catch((refused: unknown) => refused as Error);
    expect(error).toMatchObject({ name: 'StartError', message: expect.stringContaining('operator.token') });
    expect((error as Error).message).not.toContain(text);
  },
);

test('what cannot be read stops the start', async () => {
  await mkdir(file('bearer.token'));
  await expect(open()).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringContaining('bearer.token'),
  });
});
