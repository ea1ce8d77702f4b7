/** Names of stored models, and those that are in use. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { storeAt } from '../support/model-store.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'lathe-names-'));
const models = join(dataDir, 'models');
const at = (...parts: string[]) => join(models, ...parts);
beforeAll(() => {
  for (const file of [
    'one.gguf',
    'Owner--repo/two.gguf',
    'owner/name/latest.gguf',
    'parts-00001-of-00002.gguf',
    'parts-00002-of-00002.gguf',
    'folder/config.json',
    'folder/model.safetensors',
  ]) {
    mkdirSync(dirname(at(file)), { recursive: true });
    writeFileSync(at(file), '');
  }
  writeFileSync(join(dataDir, 'outside.gguf'), '');
});
afterAll(() => rmSync(dataDir, { recursive: true }));

test.each([
  ['main', /^'one' is the resident model; with --swap load another model in its place, otherwise start/],
  [
    'embedding',
    /^'one' is the embedding model, which stays loaded; start the host without it as --embedding-model$/,
  ],
  ['further', /^'one' is loaded beside the resident model; close it with keep_alive 0$/],
  ['draft', /^'one' is the draft model of a loaded model; start the host without it as --draft$/],
] as const)('a model in use is not deleted, and the refusal says why (%s)', async (role, message) => {
  const location = at('one.gguf');
  const store = storeAt(dataDir, (path) => (path === location ? role : undefined));
  const deletion = store.remove({ name: 'one', location });
  await expect(deletion).rejects.toMatchObject({ status: 409, code: 'model_in_use' });
  await expect(deletion).rejects.toThrow(message);
});

describe('a name is that of another stored model', () => {
  const other = at('other.gguf');
  test.each([
    ['one', other, true],
    ['ONE', other, true],
    ['one:latest', other, true],
    ['one', at('one.gguf'), false],
    ['Owner--repo/two', other, true],
    ['Owner--repo/two', at('Owner--repo', 'two.gguf'), false],
    ['owner/name', other, true],
    ['owner/name', at('owner', 'name', 'latest.gguf'), false],
    ['parts', other, true],
    ['parts', at('parts-00001-of-00002.gguf'), false],
    ['folder', other, true],
    ['folder', at('folder'), false],
    // Other names of a model, and names of none.
    ['two', other, false],
    ['on', other, false],
    ['absent', other, false],
    ['../outside', other, false],
    ['a\0b', other, false],
    // A model outside the data directory has no name but its id.
    ['one', join(dataDir, 'outside.gguf'), false],
    ['one', 'https://example.test/one.gguf', false],
  ])('%j, of %s: %j', async (name, location, expected) => {
    expect(await storeAt(dataDir).isNameOfAnother(name, location)).toBe(expected);
  });
});
