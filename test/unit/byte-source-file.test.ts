import { chmod, type FileHandle, mkdtemp, open, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ByteSource } from '../../src/engine/platform.ts';
import { openFile } from '../../src/platform/node-file.ts';
import { nodePlatform } from '../../src/platform/node.ts';

const bytes = Uint8Array.from({ length: 10_000 }, (_, index) => (index * 13 + (index >> 8)) & 255);
const platform = nodePlatform();
let folder = '';
let path = '';

/** The file that a location names. */
const openNamed = async (location: string): Promise<ByteSource> => {
  const files = await platform.modelFiles(location);
  const source = await files.open(files.entry ?? 'no file was named');
  if (!source) throw new Error(`${location}: no file`);
  return source;
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lathe-source-'));
  path = join(folder, 'model.gguf');
  await writeFile(path, bytes);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('a model file on disk', () => {
  it('reads any range, with and without a target buffer', async () => {
    const source = await openNamed(path);
    expect(source).toMatchObject({ name: path, sizeBytes: bytes.length });
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length), fc.nat(bytes.length), fc.boolean(), async (a, b, given) => {
        const [offset, end] = a < b ? [a, b] : [b, a];
        const into = given ? new Uint8Array(end - offset + 5) : undefined;
        const found = await source.read(offset, end - offset, into);
        expect(found).toEqual(bytes.slice(offset, end));
        if (into) expect(found.buffer).toBe(into.buffer);
      }),
      { numRuns: 100 },
    );
    await source.close();
  });

  it('rejects a range outside the file and a target buffer that is too small', async () => {
    const source = await openNamed(path);
    await expect(source.read(9_999, 2)).rejects.toThrow(RangeError);
    await expect(source.read(-1, 2)).rejects.toThrow(RangeError);
    await expect(source.read(0, 10, new Uint8Array(9))).rejects.toThrow(RangeError);
    await source.close();
  });

  it('can be given as a file: URL', async () => {
    const source = await openNamed(pathToFileURL(path).href);
    expect(source.sizeBytes).toBe(bytes.length);
    await source.close();
  });

  it('that became shorter after opening fails to read, without an endless loop', async () => {
    const shrinking = join(folder, 'shrinking.gguf');
    await writeFile(shrinking, bytes);
    const source = await openNamed(shrinking);
    await truncate(shrinking, 100);
    await expect(source.read(0, 1000)).rejects.toMatchObject({ code: 'truncated' });
    await source.close();
  });

  it('that is missing is rejected with what to do', async () => {
    const missing = join(folder, 'missing.gguf');
    await expect(openNamed(missing)).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringMatching(/missing\.gguf: no such file; name a GGUF file or a model folder/),
    });
    await expect(openNamed(join(path, 'below-a-file'))).rejects.toMatchObject({ code: 'not_found' });
  });

  it('whose size cannot be read is closed', async () => {
    const handle = await open(path);
    await handle.close();
    const stat = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'stat');
    stat.mockRejectedValueOnce(new Error('EIO: i/o error'));
    await expect(openFile(path)).rejects.toMatchObject({ code: 'unreadable' });
    expect((stat.mock.contexts[0] as FileHandle).fd).toBe(-1);
    stat.mockRestore();
  });

  it('that is a symbolic link is read, and a broken link is missing', async () => {
    const link = join(folder, 'link.gguf');
    await symlink(path, link);
    const source = await openNamed(link);
    expect(source.sizeBytes).toBe(bytes.length);
    await source.close();
    await symlink(join(folder, 'nothing'), join(folder, 'dangling.gguf'));
    await expect(openNamed(join(folder, 'dangling.gguf'))).rejects.toMatchObject({ code: 'not_found' });
  });

  it.skipIf(process.getuid?.() === 0)(
    'that may not be read is refused (skipped as root, who may)',
    async () => {
      const secret = join(folder, 'secret.gguf');
      await writeFile(secret, bytes);
      await chmod(secret, 0);
      await expect(openNamed(secret)).rejects.toMatchObject({ code: 'unreadable' });
    },
  );
});

describe('the node platform', () => {
  it('hashes as in FIPS 180, over any chunks', () => {
    const hasher = platform.sha256();
    hasher.update(new TextEncoder().encode('a'));
    hasher.update(new TextEncoder().encode('bc'));
    expect(hasher.digest()).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
  });

  it('finds the shaders of the package by their path below wgsl/', async () => {
    const sources = await platform.wgsl();
    expect([...sources.keys()]).toContain('lib/reduce.wgsl');
    expect(sources.get('rms_norm.wgsl')).toContain('@compute');
  });
});
