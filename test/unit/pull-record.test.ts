import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readStoredDigest, storeDigest, readStamps } from '../../src/pull/stored-digest.ts';
import { removeFromRecord, readRecord, recordFile } from '../../src/pull/download-record.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-record-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const record = (path: string) =>
  recordFile(folder, { repo: 'o/a' }, { path, sizeBytes: 1, checksum: { kind: 'sha256', hex: '00' } });

describe('the record of a folder', () => {
  it('is written whole by several at once, and leaves nothing beside it', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, index) => record(`${index}.gguf`)));
    expect((await readRecord(folder))?.repository).toBe('o/a');
    expect(await readdir(folder)).toEqual(['.lathe.json']);
  });

  it('goes with the last that it tells of', async () => {
    await record('a.gguf');
    await writeFile(join(folder, 'copied.gguf'), 'x');
    await storeDigest(folder, await readStamps(folder, ['copied.gguf']), 'sha256:1');
    await removeFromRecord(folder, ['a.gguf']);
    expect(await readStoredDigest(folder, ['copied.gguf'])).toBe('sha256:1');
    await removeFromRecord(folder, ['copied.gguf']);
    expect(await readdir(folder)).toEqual(['copied.gguf']);
  });

  it('that is damaged is none', async () => {
    await writeFile(join(folder, '.lathe.json'), '{"files": {"a": 1}}');
    expect(await readRecord(folder)).toBeUndefined();
    await record('a.gguf');
    expect(Object.keys((await readRecord(folder))?.files ?? {})).toEqual(['a.gguf']);
  });
});

describe('a noted digest', () => {
  const paths = ['a.gguf', 'b.gguf'];
  beforeEach(async () => {
    for (const path of paths) await writeFile(join(folder, path), 'x');
    await storeDigest(folder, await readStamps(folder, paths), 'sha256:1');
  });

  it('is that of the files as they were', async () => {
    expect(await readStoredDigest(folder, paths)).toBe('sha256:1');
    expect(await readStoredDigest(folder, ['b.gguf'])).toBe('sha256:1');
  });

  it('holds no longer when one of them has another size or time, or another file has come', async () => {
    const { atime, mtime } = await stat(join(folder, 'b.gguf'));
    await utimes(join(folder, 'b.gguf'), atime, new Date(mtime.getTime() + 1000));
    expect(await readStoredDigest(folder, paths)).toBeUndefined();
    expect(await readStoredDigest(folder, ['a.gguf'])).toBe('sha256:1');
    await writeFile(join(folder, 'a.gguf'), 'xx');
    expect(await readStoredDigest(folder, ['a.gguf'])).toBeUndefined();
    await writeFile(join(folder, 'c.gguf'), 'x');
    expect(await readStoredDigest(folder, ['c.gguf'])).toBeUndefined();
  });

  it('goes when the model is found to be bad', async () => {
    await storeDigest(folder, await readStamps(folder, paths), undefined);
    expect(await readdir(folder)).toEqual(paths);
  });
});
