/** Stored models of a page: downloaded once, resumed after an interruption, refused without enough space. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openModelFile } from '../../src/engine/formats/open-model-file.ts';
import { cachedFiles, streamedFiles, wholeFiles } from '../../src/platform/browser-models.ts';
import type { ModelCacheOptions } from '../../src/platform/model-cache.ts';
import { deleteCachedModel, listCachedModels } from '../../src/platform/model-cache-records.ts';
import { type LocalServer, rangeOf, serve } from '../support/local-server.ts';
import { lockManager, PrivateFiles } from '../support/private-files.ts';
import { splitGguf, splitPartName } from '../support/gguf-split-writer.ts';
import { type GgufFile, ggufBytes, text } from '../support/gguf-writer.ts';
import { tinyFolder } from '../support/tiny-folder.ts';

const size = 100_000;
const random = (seed: number): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length: size }, (_, index) => (index * 2654435761 + seed * 40503) >>> 13);

interface Served {
  content: Uint8Array;
  etag: string | undefined;
  modified: string | undefined;
}
const files = new Map<string, Served>();
/** `path range` of every request. */
const requests: string[] = [];
/** Responds instead of the server when it returns true. */
let fault: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
/** Bytes after which each of the next responses is cut off. */
let cuts: number[] = [];
let ranges = true;
let lengths = true;
let server: LocalServer;

beforeAll(async () => {
  server = await serve((request, response) => {
    const path = (request.url ?? '').slice(1);
    requests.push(`${path} ${request.headers.range ?? 'whole'}`);
    if (fault(request, response)) return;
    const file = files.get(path);
    if (!file) {
      response.writeHead(404).end();
      return;
    }
    const { content, etag, modified } = file;
    const range = ranges ? rangeOf(request.headers.range, content.length) : undefined;
    const body = range ? content.subarray(range.first, range.last + 1) : content;
    response.writeHead(range ? 206 : 200, {
      ...(lengths ? { 'content-length': body.length } : {}),
      ...(etag === undefined ? {} : { etag }),
      ...(modified === undefined ? {} : { 'last-modified': modified }),
      ...(range ? { 'content-range': `bytes ${range.first}-${range.last}/${content.length}` } : {}),
    });
    const cut = cuts.shift() ?? Number.POSITIVE_INFINITY;
    if (cut >= body.length) response.end(body);
    else response.write(body.subarray(0, cut), () => setTimeout(() => response.destroy(), 10));
  });
});
afterAll(() => server.close());
beforeEach(() => {
  files.clear();
  files.set('a.gguf', { content: random(1), etag: '"one"', modified: undefined });
  requests.length = 0;
  cuts = [];
  fault = () => false;
  ranges = true;
  lengths = true;
});

const url = (path = 'a.gguf') => `${server.url}/${path}`;

/** A page of an origin with this private file system. */
const pageOf = (disk: PrivateFiles, changes: Partial<ModelCacheOptions> = {}) => {
  const progress: string[] = [];
  const locks = changes.locks ?? lockManager();
  return {
    progress,
    locks,
    /** May be called repeatedly; returns the first file of the model. */
    load: async (path = 'a.gguf', finish = true) => {
      const kept = await cachedFiles(url(path), {
        models: disk.root,
        locks,
        room: disk.room,
        attempts: 2,
        retryDelayMs: 1,
        onBytes: (file, done, total) => progress.push(`${file.split('/').at(-1)} ${done}/${total ?? '?'}`),
        ...changes,
      });
      const source = await kept.files.open(kept.files.entry ?? 'config.json');
      const bytes = source && (await source.read(0, source.sizeBytes));
      if (finish) await kept.finish();
      return { ...kept, bytes };
    },
    list: () => listCachedModels(disk.root),
    forget: (path = 'a.gguf') => deleteCachedModel(url(path), disk.root, locks),
  };
};

describe('a model at a URL', () => {
  it('is fetched once, with progress, and not requested again', async () => {
    const disk = new PrivateFiles();
    const page = pageOf(disk);
    expect((await page.load()).bytes).toEqual(random(1));
    expect(requests).toEqual(['a.gguf whole']);
    expect(page.progress[0]).toBe(`a.gguf 0/${size}`);
    expect(page.progress.at(-1)).toBe(`a.gguf ${size}/${size}`);
    // Also by another page, without a server.
    fault = (_, response) => {
      response.destroy();
      return true;
    };
    const later = await pageOf(disk).load();
    expect(later.bytes).toEqual(random(1));
    expect(later.files.remote).toBe(false);
    expect(requests).toEqual(['a.gguf whole']);
    expect(await page.list()).toEqual([{ url: url(), bytes: size, whole: true }]);
  });

  it('resumes where it was interrupted, in the same load and in a later one', async () => {
    const disk = new PrivateFiles();
    cuts = [30_000, 0, 0];
    await expect(pageOf(disk).load()).rejects.toMatchObject({
      code: 'unreadable',
      message: expect.stringMatching(
        /interrupted after 29\.3 KiB of 97\.7 KiB .* load the model again/,
      ) as string,
    });
    expect(requests).toEqual(['a.gguf whole', 'a.gguf bytes=30000-']);
    expect(await pageOf(disk).list()).toEqual([{ url: url(), bytes: 30_000, whole: false }]);
    requests.length = 0;
    cuts = [20_000];
    const page = pageOf(disk);
    expect((await page.load()).bytes).toEqual(random(1));
    expect(requests).toEqual(['a.gguf bytes=30000-', 'a.gguf bytes=50000-']);
    expect(page.progress[0]).toBe(`a.gguf 30000/${size}`);
  });

  it.each([
    ['another ETag', { etag: '"two"', modified: undefined }, size],
    ['another date', { etag: undefined, modified: 'Sun, 22 Nov 2026 08:00:00 GMT' }, size],
    ['another length', { etag: '"one"', modified: undefined }, size - 5000],
  ])('starts over when the server has another version by now: %s', async (_, version, length) => {
    const disk = new PrivateFiles();
    cuts = [30_000, 0, 0];
    await expect(pageOf(disk).load()).rejects.toThrow(/interrupted after/);
    const content = random(2).subarray(0, length);
    files.set('a.gguf', { content, ...version });
    requests.length = 0;
    expect((await pageOf(disk).load()).bytes).toEqual(content);
    expect(requests).toEqual(['a.gguf bytes=30000-', 'a.gguf whole']);
  });

  it('starts again when the server supports no ranges or reports no length', async () => {
    for (const what of ['ranges', 'length']) {
      const disk = new PrivateFiles();
      ranges = what !== 'ranges';
      lengths = what !== 'length';
      cuts = [30_000];
      await expect(pageOf(disk, { attempts: 1 }).load()).rejects.toThrow(/interrupted after 29.3 KiB/);
      requests.length = 0;
      expect((await pageOf(disk).load()).bytes, what).toEqual(random(1));
      expect(requests).toEqual([ranges ? 'a.gguf whole' : 'a.gguf bytes=30000-']);
    }
  });

  it('fails when each attempt ends earlier than the previous one', async () => {
    ranges = false;
    cuts = Array.from({ length: 40 }, (_, index) => 40_000 - index * 100);
    await expect(pageOf(new PrivateFiles()).load()).rejects.toMatchObject({ code: 'unreadable' });
    expect(requests.filter((one) => one.endsWith('whole')).length).toBeLessThan(4);
  });

  it('has the length that its server reports, whatever the length of the parts', async () => {
    const shorter = 3000;
    const content = random(3).subarray(0, shorter);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: shorter }), { maxLength: 6 }),
        fc.boolean(),
        async (cutsAt, withRanges) => {
          files.set('a.gguf', { content, etag: '"three"', modified: undefined });
          const disk = new PrivateFiles();
          cuts = [...cutsAt];
          ranges = withRanges;
          for (let attempt = 0; ; attempt++) {
            const loaded = await pageOf(disk)
              .load()
              .catch((error: Error) => error);
            if (!(loaded instanceof Error)) {
              expect(loaded.bytes).toEqual(content);
              return;
            }
            expect(loaded).toMatchObject({ code: 'unreadable' });
            expect(attempt).toBeLessThan(8);
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  it('waits for a busy or silent server', async () => {
    let busy = 1;
    fault = (_, response) => {
      if (busy-- <= 0) return false;
      response.writeHead(503).end();
      return true;
    };
    expect((await pageOf(new PrivateFiles()).load()).bytes).toEqual(random(1));
    let silent = 1;
    fault = () => silent-- > 0;
    expect((await pageOf(new PrivateFiles(), { attempts: 50, idleMs: 500 }).load()).bytes).toEqual(random(1));
  });

  it('reports a silent server, and gives up on one that keeps sending a little', async () => {
    const notices: string[] = [];
    fault = (request, response) => {
      const first = rangeOf(request.headers.range, size)?.first ?? 0;
      if (first > 0) {
        response.writeHead(206, { etag: '"one"', 'content-range': `bytes ${first}-${size - 1}/${size}` });
        response.write(random(1).subarray(first, first + 1000));
        return true;
      }
      response.writeHead(200, { etag: '"one"', 'content-length': size }).write(random(1).subarray(0, 1000));
      return true;
    };
    const page = pageOf(new PrivateFiles(), {
      idleMs: 300,
      noticeMs: 20,
      attempts: 3,
      onNotice: (notice) => void notices.push(notice),
    });
    await expect(page.load()).rejects.toThrow(
      /no data for 0.3 s.*; load the model again to resume|no response \(/,
    );
    const dropped = 'the connection is dropped after 0.3 s without any';
    for (const attempt of [1, 2, 3])
      expect(notices).toContain(`${url()}: no data for 0.02 s; ${dropped} (attempt ${attempt} of 3)`);
    expect(notices).toContain(`${url()}: no data for 0.3 s; connecting again (attempt 3 of 3)`);
  });

  it('stops when the signal aborts, and keeps the received bytes', async () => {
    const disk = new PrivateFiles();
    const stop = new AbortController();
    const page = pageOf(disk, {
      signal: stop.signal,
      onBytes: (_, done) => done > 0 && stop.abort(new Error('enough')),
    });
    cuts = [30_000];
    await expect(page.load()).rejects.toThrow('enough');
    expect((await page.list())[0]?.bytes).toBeGreaterThan(0);
    expect((await pageOf(disk).load()).bytes).toEqual(random(1));
  });

  it('reports what is wrong with the URL', async () => {
    const loaded = await pageOf(new PrivateFiles()).load('nothing.gguf');
    expect(loaded.bytes).toBeUndefined();
    for (const [status, code] of [
      [403, 'forbidden'],
      [401, 'forbidden'],
      [500, 'unreadable'],
      [400, 'unreadable'],
    ] as const) {
      fault = (_, response) => {
        response.writeHead(status).end();
        return true;
      };
      await expect(pageOf(new PrivateFiles()).load()).rejects.toMatchObject({ code });
    }
    fault = (_, response) => {
      response.destroy();
      return true;
    };
    await expect(pageOf(new PrivateFiles()).load()).rejects.toThrow(/no response .*CORS/);
  });

  it('is downloaded again when the browser deleted its file', async () => {
    const disk = new PrivateFiles();
    await pageOf(disk).load();
    const [folder = ''] = [...disk.contents().keys()][0]?.split('/') ?? [];
    await (await disk.root.getDirectoryHandle(folder)).removeEntry('file-0');
    expect((await pageOf(disk).list())[0]).toMatchObject({ bytes: 0, whole: false });
    expect((await pageOf(disk).load()).bytes).toEqual(random(1));
  });

  it('is downloaded again when its record is damaged', async () => {
    for (const damage of ['', '{"url":', 'null', '[]', '{"url":"x"}', '{"url":"x","files":null}']) {
      const disk = new PrivateFiles();
      await pageOf(disk).load();
      const [folder = ''] = [...disk.contents().keys()][0]?.split('/') ?? [];
      const record = await (await disk.root.getDirectoryHandle(folder)).getFileHandle('record.json');
      const handle = await record.createSyncAccessHandle();
      handle.truncate(0);
      handle.write(new TextEncoder().encode(damage), { at: 0 });
      handle.close();
      expect(await pageOf(disk).list(), damage).toEqual([]);
      expect((await pageOf(disk).load()).bytes, damage).toEqual(random(1));
    }
  });
});

describe('storage space', () => {
  it('is checked before anything is fetched, and the error has the sizes', async () => {
    const disk = new PrivateFiles(50_000);
    const page = pageOf(disk);
    await expect(page.load()).rejects.toMatchObject({
      code: 'quota_exceeded',
      message: expect.stringMatching(
        /97\.7 KiB of 97\.7 KiB must still be downloaded, but .* left of .*quota of 48\.8 KiB.*forgetModel/,
      ) as string,
    });
    expect(page.progress).toEqual([]);
  });

  it.each([true, false])(
    'that runs out during a download is reported; the received bytes are used later (%s)',
    async (byCount) => {
      const disk = new PrivateFiles(50_000);
      disk.claimed = 1e9;
      disk.refusesByCount = byCount;
      await expect(pageOf(disk).load()).rejects.toMatchObject({
        code: 'quota_exceeded',
        message: expect.stringMatching(
          /the browser refused to store more than .* of 97\.7 KiB \(it reports a quota of/,
        ) as string,
      });
      expect((await pageOf(disk).list())[0]).toMatchObject({ whole: false });
      disk.quota = 1e9;
      expect((await pageOf(disk).load()).bytes).toEqual(random(1));
    },
  );

  it('includes the bytes of an earlier attempt', async () => {
    const disk = new PrivateFiles(101_000);
    cuts = [60_000, 0, 0];
    await expect(pageOf(disk).load()).rejects.toThrow(/interrupted after/);
    expect((await pageOf(disk).load()).bytes).toEqual(random(1));
  });
});

describe('two pages', () => {
  it('that load the same model fetch it once', async () => {
    const disk = new PrivateFiles();
    const locks = lockManager();
    let waits = 0;
    const pages = [1, 2, 3].map(() => pageOf(disk, { locks, onWait: () => (waits += 1) }));
    const loaded = await Promise.all(pages.map((page) => page.load()));
    for (const { bytes } of loaded) expect(bytes).toEqual(random(1));
    expect(requests).toEqual(['a.gguf whole']);
    expect(waits).toBeGreaterThan(0);
  });

  it('take over from each other: the next one continues with the bytes of one that fails', async () => {
    const disk = new PrivateFiles();
    const locks = lockManager();
    cuts = [30_000, 0];
    const [first, second] = await Promise.allSettled([
      pageOf(disk, { locks, attempts: 1 }).load(),
      pageOf(disk, { locks }).load(),
    ]);
    expect(first.status).toBe('rejected');
    expect(second.status).toBe('fulfilled');
    expect(requests).toEqual(['a.gguf whole', 'a.gguf bytes=30000-', 'a.gguf bytes=30000-']);
  });
});

describe('a stored model', () => {
  it('is listed and deleted by URL', async () => {
    const disk = new PrivateFiles();
    files.set('b.gguf', { content: random(2), etag: undefined, modified: undefined });
    const page = pageOf(disk);
    await page.load('b.gguf', false);
    await page.load('a.gguf');
    expect(await page.list()).toEqual([
      { url: url('a.gguf'), bytes: size, whole: true },
      // No engine has loaded it yet: files may be missing.
      { url: url('b.gguf'), bytes: size, whole: false },
    ]);
    expect(await page.forget('b.gguf')).toBe(true);
    expect(await page.forget('never.gguf')).toBe(true);
    expect((await page.list()).map((one) => one.url)).toEqual([url('a.gguf')]);
  });

  it('is downloaded again when another page deleted it meanwhile', async () => {
    put({ ...tinyFolder('llama') });
    const disk = new PrivateFiles();
    const page = pageOf(disk);
    const { files: model, finish } = await page.load('', false);
    expect(await page.forget('')).toBe(true);
    expect(await model.open('tokenizer.json')).toBeDefined();
    await finish();
    // A deleted model is not reported as a missing file.
    expect((await page.list()).map(({ whole }) => whole)).toEqual([false]);
    expect((await page.load('')).bytes).toEqual(files.get('config.json')?.content);
    // Deleted last, it stays deleted.
    const again = await page.load('', false);
    await page.forget('');
    await again.finish();
    expect(await page.list()).toEqual([]);
  });

  it('is requested again if it was not a model, unless it was one before', async () => {
    const disk = new PrivateFiles();
    const page = pageOf(disk);
    files.set('a.gguf', {
      content: new TextEncoder().encode('<html>'),
      etag: undefined,
      modified: undefined,
    });
    await (await page.load('a.gguf', false)).drop();
    expect(await page.list()).toEqual([]);
    files.set('a.gguf', { content: random(1), etag: undefined, modified: undefined });
    const { bytes, drop } = await page.load();
    expect(bytes).toEqual(random(1));
    await drop();
    expect((await page.list()).map(({ whole }) => whole)).toEqual([true]);
  });

  it('is listed while another page deletes some of it', async () => {
    files.set('b.gguf', { content: random(2), etag: undefined, modified: undefined });
    const disk = new PrivateFiles();
    const page = pageOf(disk);
    await page.load('a.gguf');
    await page.load('b.gguf');
    const { root } = disk;
    const racing: typeof root = {
      ...root,
      async getDirectoryHandle(name) {
        const folder = await root.getDirectoryHandle(name);
        await page.forget('a.gguf');
        return folder;
      },
    };
    expect((await listCachedModels(racing)).map((one) => one.url)).toEqual([url('b.gguf')]);
  });

  it('is not deleted while a page is fetching it', async () => {
    const disk = new PrivateFiles();
    const locks = lockManager();
    let forgotten: Promise<boolean> | undefined;
    const page = pageOf(disk, {
      locks,
      onBytes: () => void (forgotten ??= deleteCachedModel(url(), disk.root, locks)),
    });
    expect((await page.load()).bytes).toEqual(random(1));
    expect(await forgotten).toBe(false);
  });
});

const model: GgufFile = {
  metadata: [['general.name', text('tiny')]],
  tensors: ['a', 'b', 'c'].map((name, index) => ({
    name,
    type: 'F32',
    shape: [2, 2],
    data: () => new Uint8Array(16).fill(index + 1),
  })),
};
const put = (contents: Readonly<Record<string, Uint8Array>>) => {
  for (const [path, content] of Object.entries(contents))
    files.set(path, { content, etag: `"${path}"`, modified: undefined });
};

describe('models of several files', () => {
  it('are stored completely: a split set, a folder, a URL without a trailing slash', async () => {
    put(splitGguf('parts/tiny', model, 3));
    put(
      Object.fromEntries(Object.entries(tinyFolder('llama')).map(([name, bytes]) => [`hf/${name}`, bytes])),
    );
    for (const path of [splitPartName('parts/tiny', 1, 3), 'hf/', 'hf']) {
      const disk = new PrivateFiles();
      const open = async () => {
        const { files: found, finish } = await cachedFiles(url(path), {
          models: disk.root,
          locks: lockManager(),
          onBytes() {},
        });
        const file = await openModelFile(found);
        const [tensor] = file.tensors.values();
        if (tensor) await file.readRows(tensor, 0, 1);
        await file.close();
        await finish();
        return file.format;
      };
      const format = await open();
      expect((await listCachedModels(disk.root))[0]).toMatchObject({ url: url(path), whole: true });
      requests.length = 0;
      expect(await open()).toBe(format);
      expect(requests, path).toEqual([]);
    }
  });
});

describe('models that are not stored', () => {
  it('are read by ranges, or completely from a server without ranges', async () => {
    put({ 'tiny.gguf': ggufBytes(model) });
    for (const withRanges of [true, false]) {
      ranges = withRanges;
      requests.length = 0;
      const found = await streamedFiles(url('tiny.gguf'), () => {}, { attempts: 1 });
      const file = await openModelFile(found);
      expect(file.tensors.size).toBe(3);
      await file.close();
      expect(requests.some((one) => one.endsWith('whole'))).toBe(!withRanges);
    }
  });

  it('do not wait forever for a silent server', async () => {
    fault = (_, response) => {
      response.writeHead(200, { 'content-length': size }).write(new Uint8Array(10));
      return true;
    };
    const notices: string[] = [];
    const onNotice = (notice: string) => void notices.push(notice);
    const found = await wholeFiles(url(), () => {}, { idleMs: 500, noticeMs: 20, onNotice });
    await expect(openModelFile(found)).rejects.toThrow(/interrupted after 10 bytes \(no data for 0.5 s\)/);
    expect(notices.at(-1)).toMatch(/a.gguf: no data for 0.02 s; the connection is dropped after 0.5 s/);
  });

  it('report a missing file, or a refusal by the server', async () => {
    for (const read of [streamedFiles, wholeFiles]) {
      const found = await read(url('nothing.gguf'), () => {});
      await expect(openModelFile(found)).rejects.toMatchObject({ code: 'not_found' });
    }
    fault = (_, response) => {
      response.writeHead(500).end();
      return true;
    };
    const found = await wholeFiles(url(), () => {});
    await expect(openModelFile(found)).rejects.toMatchObject({ code: 'unreadable' });
  });
});
