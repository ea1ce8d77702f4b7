import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigStore } from '../../src/lab/configs/store.ts';

let root = '';
let store: ConfigStore;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'lathe-configs-'));
  await mkdir(join(root, 'data'));
  store = new ConfigStore(join(root, 'data'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(root, { recursive: true });
});

test('saved configs are listed in order and can be read; saving under the same name replaces', async () => {
  expect(await store.names()).toEqual([]);
  await store.save('v1.2', 'a');
  await store.save('B_c-d', 'b');
  await store.save('v1.2', 'ä');
  expect(await store.names()).toEqual(['B_c-d', 'v1.2']);
  expect(await store.read('v1.2')).toBe('ä');
  expect((await readdir(store.folder)).sort()).toEqual(['B_c-d.json', 'v1.2.json']);
  expect((await stat(join(store.folder, 'v1.2.json'))).mode & 0o077).toBe(0);
});

test('an unknown name lists the saved configs', async () => {
  await store.save('fast', 'x');
  await expect(store.read('slow')).rejects.toMatchObject({
    code: 'unknown_config',
    message: "There is no config 'slow' (there is no such file); saved configs: fast.",
  });
});

describe('access is limited to the directory', () => {
  const pieces = ['..', '.', '/', '\\', '\0', 'a', '%2e', '\n', '~', 'C:', '-', ' ', '․', '．', '／'];
  const hostile = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 80 }),
    fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((parts) => parts.join('')),
    fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,70}$/),
  );

  test('no name reads or writes outside of it', async () => {
    await writeFile(join(root, 'secret.json'), 'secret');
    await writeFile(join(root, 'data', 'secret.json'), 'secret');
    await store.save('first', 'x');
    const before = [(await readdir(root)).sort(), (await readdir(join(root, 'data'))).sort()];
    await fc.assert(
      fc.asyncProperty(hostile, async (name) => {
        const saved = await store.save(name, 'x').then(
          () => 'saved',
          (error: { code?: string }) => error.code,
        );
        expect(['saved', 'invalid_name']).toContain(saved);
        if (saved === 'saved') expect(await store.names()).toContain(name);
        else await expect(store.read(name)).rejects.toMatchObject({ code: 'invalid_name' });
      }),
      { numRuns: 300 },
    );
    expect((await readdir(root)).sort()).toEqual(before[0]);
    expect((await readdir(join(root, 'data'))).sort()).toEqual(before[1]);
    for (const entry of await readdir(store.folder)) expect(entry).toMatch(/^[A-Za-z0-9][\w.-]*\.json$/);
  });

  test('links and directories are neither listed nor read; saving replaces a link instead of following it', async () => {
    const outside = join(root, 'outside.json');
    await writeFile(outside, 'outside');
    await store.save('real', 'r');
    await symlink(outside, join(store.folder, 'link.json'));
    await symlink(root, join(store.folder, 'tree.json'));
    await mkdir(join(store.folder, 'folder.json'));
    await writeFile(join(store.folder, '.hidden.json'), 'x');
    await writeFile(join(store.folder, 'other.txt'), 'x');
    expect(await store.names()).toEqual(['real']);
    for (const name of ['link', 'tree', 'folder']) {
      await expect(store.read(name)).rejects.toMatchObject({ code: 'unknown_config' });
    }
    await store.save('link', 'mine');
    expect(await readFile(outside, 'utf8')).toBe('outside');
    expect(await store.read('link')).toBe('mine');
    await expect(store.save('folder', 'x')).rejects.toMatchObject({ code: 'lab_failed' });
    expect((await readdir(store.folder)).filter((entry) => entry.endsWith('.tmp'))).toEqual([]);
  });
});

test.each(['writeFile', 'sync'] as const)('a full disk at %s keeps the old config', async (step) => {
  await store.save('fast', 'old');
  const handle = await open(join(store.folder, 'fast.json'));
  const files = Object.getPrototypeOf(handle) as typeof handle;
  await handle.close();
  vi.spyOn(files, step).mockRejectedValueOnce(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
  await expect(store.save('fast', 'new')).rejects.toMatchObject({
    code: 'lab_failed',
    message: "The config 'fast' cannot be saved: the disk is full.",
  });
  expect(await store.read('fast')).toBe('old');
  expect(await readdir(store.folder)).toEqual(['fast.json']);
});
