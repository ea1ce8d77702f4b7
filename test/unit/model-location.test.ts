import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { locateModel } from '../../src/cli/model-location.ts';
import { pulledModels } from '../../src/cli/models/pulled-models.ts';
import { recordFile } from '../../src/pull/download-record.ts';

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'lathe-location-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true }));

const put = async (...paths: string[]) => {
  for (const path of paths) {
    await mkdir(join(dataDir, 'models', dirname(path)), { recursive: true });
    await writeFile(join(dataDir, 'models', path), 'x');
  }
};
const locate = async (model: string | undefined) => {
  const { location } = await locateModel(model, { packageRoot: '/package', dataDir });
  return location.replace(join(dataDir, 'models/'), '');
};

describe('pulled models', () => {
  it('are GGUF files, split sets as one, and folders; what is half there is marked', async () => {
    await put(
      'o--a/a.gguf',
      'o--a/b.gguf.part',
      'o--a/b.gguf.part.json',
      'o--s/q/s-00001-of-00002.gguf',
      'o--s/q/s-00002-of-00002.gguf.part',
      'o--f/config.json',
      'o--f/model.safetensors',
      'o--f/1_Pooling/config.json',
      'o--m/mlc-chat-config.json',
      'o--m/params_shard_0.bin.part',
      'o--a/README.md',
      'o--a/.lathe.json',
    );
    const found = await pulledModels(join(dataDir, 'models'));
    expect(found.map(({ name, files, unfinished }) => [name, files.length, unfinished.length])).toEqual([
      ['o--a/a', 1, 0],
      ['o--a/b', 1, 1],
      ['o--f', 3, 0],
      ['o--m', 2, 1],
      ['o--s/q/s', 2, 1],
    ]);
  });

  it('are no image projectors and no importance matrices, whatever their folders are called', async () => {
    await put('o--imatrix/a.gguf', 'o--imatrix/mmproj-F16.gguf', 'o--imatrix/a.imatrix.gguf');
    const found = await pulledModels(join(dataDir, 'models'));
    expect(found.map(({ name }) => name)).toEqual(['o--imatrix/a']);
  });

  it('beside a GGUF need no folder of their own for its settings', async () => {
    await put('o--a/a.gguf', 'o--a/config.json', 'o--b/b.gguf', 'o--b/config.json', 'o--b/model.safetensors');
    const found = await pulledModels(join(dataDir, 'models'));
    expect(found.map(({ name }) => name)).toEqual(['o--a/a', 'o--b', 'o--b/b']);
  });
});

describe('the model that a name means', () => {
  it.each([
    ['o--s/q/s', 'o--s/q/s-00001-of-00002.gguf'],
    ['S', 'o--s/q/s-00001-of-00002.gguf'],
    ['o/s/q/s', 'o--s/q/s-00001-of-00002.gguf'],
    ['s-00002-of-00002.gguf', 'o--s/q/s-00001-of-00002.gguf'],
    ['o--f', 'o--f'],
    ['o/f', 'o--f'],
    ['a-q8_0.gguf', 'o--a/a-Q8_0.gguf'],
  ])('%s is %s', async (name, expected) => {
    await put(
      'o--a/a-Q8_0.gguf',
      'o--s/q/s-00001-of-00002.gguf',
      'o--s/q/s-00002-of-00002.gguf',
      'o--f/config.json',
      'o--f/model.safetensors',
    );
    expect(await locate(name)).toBe(expected);
  });

  it('is also what a repository holds, by the name of that', async () => {
    await put('o--tiny/t-Q8_0.gguf', 'o--f/f.gguf', 'o--f/config.json', 'o--f/model.safetensors');
    expect(await locate('o/tiny')).toBe('o--tiny/t-Q8_0.gguf');
    expect(await locate('O--Tiny')).toBe('o--tiny/t-Q8_0.gguf');
    expect(await locate('o/f')).toBe('o--f');
    await put('o--tiny/t-Q4_0.gguf');
    await expect(locate('o/tiny')).rejects.toThrow(
      /'o\/tiny' matches several pulled models: o--tiny\/t-Q4_0, o--tiny\/t-Q8_0/,
    );
  });

  it('that is unknown is an error that lists the known models, each by a unique name', async () => {
    await put('a--x/m.gguf', 'b--x/m.gguf', 'b--x/n.gguf', 'c--x/lathe-tiny.gguf');
    await expect(locate('zzz')).rejects.toThrow(/Known models: lathe-tiny, a--x\/m, b--x\/m, n\. Download/);
  });

  it('is a folder or a file that is there, and an address as it stands', async () => {
    await put('x/y.gguf');
    expect(await locate(join(dataDir, 'models', 'x'))).toBe('x');
    expect(await locate(join(dataDir, 'models', 'x', 'y.gguf'))).toBe('x/y.gguf');
    expect(await locate('https://host/x')).toBe('https://host/x');
    expect(await locate(undefined)).toBe('/package/models/lathe-tiny-q8_0.gguf');
    expect(await locate('lathe-tiny')).toBe('/package/models/lathe-tiny-q8_0.gguf');
    await expect(locate('./nowhere')).rejects.toThrow(/no file or folder/);
    await expect(locate('z')).rejects.toThrow(/Known models: lathe-tiny, y\. Download one/);
  });
});

describe('hf: models', () => {
  it('are read from the pulled copy where it is what is meant, whole', async () => {
    await put(
      'o--a/a-Q8_0.gguf',
      'o--a/a-Q4_0.gguf',
      'o--a/a-Q6_K.gguf.part',
      'o--f/config.json',
      'o--f/model.safetensors',
    );
    expect(await locate('hf:o/a')).toBe('o--a/a-Q8_0.gguf');
    expect(await locate('hf:o/a:q4_0')).toBe('o--a/a-Q4_0.gguf');
    expect(await locate('hf:o/f')).toBe('o--f');
  });

  it('are read from the hub where the copy is another, half there, or of another revision', async () => {
    await put(
      'o--a/a-Q8_0.gguf',
      'o--p/config.json',
      'o--p/model.safetensors.part',
      'o--s/s-00001-of-00002.gguf',
    );
    for (const model of ['hf:o/a:Q4_0', 'hf:o/a@v2', 'hf:o/p', 'hf:o/s', 'hf:o/none', 'hf:nonsense'])
      expect(await locate(model)).toBe(model);
    const file = { path: 'a-Q8_0.gguf', sizeBytes: 1, checksum: { kind: 'sha256', hex: '00' } } as const;
    await recordFile(join(dataDir, 'models', 'o--a'), { repo: 'o/a', revision: 'v2' }, file);
    expect(await locate('hf:o/a@v2')).toBe('o--a/a-Q8_0.gguf');
    expect(await locate('hf:o/a@v3')).toBe('hf:o/a@v3');
  });
});
