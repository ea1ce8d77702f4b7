import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type PullOptions, pull } from '../../src/pull/pull.ts';
import { readRecord } from '../../src/pull/download-record.ts';
import { type Cut, type FakeHub, fakeHub, sendFile } from '../support/fake-hub.ts';
import { rangeOf, serve } from '../support/local-server.ts';

const repo = 'owner/tiny-GGUF';
const content = new Uint8Array(randomBytes(300_000));
const file = { path: 'tiny-Q8_0.gguf', content };
const quick = { attempts: 3, retryDelayMs: 1, idleMs: 120_000 };

let hub: FakeHub;
let folder = '';
beforeEach(async () => {
  hub = await fakeHub(repo, [file, { path: 'README.md', content: new Uint8Array(10), small: true }]);
  folder = await mkdtemp(join(tmpdir(), 'lathe-pull-'));
});
afterEach(async () => {
  await hub.close();
  await rm(folder, { recursive: true, force: true });
});

const run = (options: Partial<PullOptions> = {}) =>
  pull({ repo, destination: folder, endpoint: hub.url, retry: quick, ...options });
const home = () => join(folder, 'owner--tiny-GGUF');
const left = async () => (await readdir(home())).sort();
const isContent = (request: { url?: string | undefined }) => request.url?.includes('/resolve/') ?? false;
/** Cuts after so many bytes of an answer, when the part of the file has as many as `until`. */
const cutAfter = (bytes: number, path: string, until = bytes): Cut => ({
  bytes,
  received: () => (statSync(`${join(home(), path)}.part`, { throwIfNoEntry: false })?.size ?? 0) >= until,
});
/** Ranges of the requests for the content. */
const ranges = () => hub.log.filter((line) => line.includes('/resolve/')).map((line) => line.split(' ')[2]);

describe('pull', () => {
  it('fetches the file, whole and alone in its folder, and reports the progress', async () => {
    const seen: number[] = [];
    const { path } = await run({ onProgress: ({ done, total }) => seen.push(done, total) });
    expect(path).toBe(join(home(), 'tiny-Q8_0.gguf'));
    expect(new Uint8Array(await readFile(path))).toEqual(content);
    expect(await left()).toEqual(['.lathe.json', 'tiny-Q8_0.gguf']);
    expect(seen.slice(0, 2)).toEqual([0, content.length]);
    expect(seen.slice(-2)).toEqual([content.length, content.length]);
  });

  it('does not fetch a file again that is there and right, and replaces one that is wrong', async () => {
    const { path } = await run();
    expect(await run()).toEqual({ path, alreadyPresent: true });
    expect(ranges()).toHaveLength(1);
    await writeFile(path, new Uint8Array(content.length));
    await run();
    expect(new Uint8Array(await readFile(path))).toEqual(content);
  });

  it('keeps the folders of the repository, and reads files that git itself holds', async () => {
    hub.files = [{ path: 'sub/ä b-F16.gguf', content, small: true }];
    const { path } = await run();
    expect(path).toBe(join(home(), 'sub', 'ä b-F16.gguf'));
    expect(new Uint8Array(await readFile(path))).toEqual(content);
  });

  it('sends the token to the hub, and not to the storage that the hub names', async () => {
    const seen: (string | undefined)[] = [];
    const storage = await serve((request, response) => {
      seen.push(request.headers.authorization);
      sendFile(file, request, response);
    });
    hub.token = 'secret';
    hub.fault = (request, response) => {
      if (!isContent(request) || request.headers.authorization !== 'Bearer secret') return false;
      // Another port is another origin.
      response.writeHead(302, { location: `${storage.url}/blob` }).end();
      return true;
    };
    await run({ token: 'secret' });
    expect(seen).toEqual([undefined]);
    await storage.close();
  });
});

describe('a pull of several files', () => {
  const part = (index: number) => `q8/tiny-Q8_0-0000${index}-of-00003.gguf`;
  const parts = [1, 2, 3].map((index) => ({
    path: part(index),
    content: content.subarray(0, index * 50_000),
  }));

  it('fetches every part of a split set, reports them as one, and serves the first', async () => {
    hub.files = [...parts, { path: 'README.md', content }];
    const seen: { file: string; done: number; total: number }[] = [];
    const { path, alreadyPresent } = await run({
      onProgress: (progress) => seen.push(progress),
    });
    expect(path).toBe(join(home(), part(1)));
    expect(alreadyPresent).toBe(false);
    for (const one of parts)
      expect(new Uint8Array(await readFile(join(home(), one.path)))).toEqual(one.content);
    expect(await left()).toEqual(['.lathe.json', 'q8']);
    expect(seen.at(-1)).toEqual({
      file: part(3),
      done: 300_000,
      total: 300_000,
      part: {
        digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        doneBytes: 150_000,
        totalBytes: 150_000,
      },
    });
    expect(seen.map(({ done }) => done)).toEqual(seen.map(({ done }) => done).sort((a, b) => a - b));
    expect(await run()).toEqual({ path, alreadyPresent: true });
  });

  it('goes on with the part it was cut in, and keeps the whole ones', async () => {
    hub.files = parts;
    hub.fault = (request, response) => {
      if (!request.url?.includes('00002-of')) return false;
      if (request.headers.range === 'bytes=0-')
        sendFile(parts[1] ?? file, request, response, cutAfter(70_000, part(2)));
      else response.writeHead(503).end();
      return true;
    };
    await expect(run()).rejects.toMatchObject({ code: 'interrupted' });
    hub.fault = () => false;
    hub.log.length = 0;
    await run();
    expect(ranges()).toEqual(['bytes=70000-', 'bytes=0-']);
  });

  it('brings a folder where there is no GGUF, each file checked', async () => {
    const small = (path: string) => ({
      path,
      content: new TextEncoder().encode(`{"${path}":1}`),
      small: true,
    });
    hub.files = [
      small('config.json'),
      small('tokenizer.json'),
      { path: 'model.safetensors', content },
      small('x.md'),
    ];
    const { path } = await run();
    expect(path).toBe(home());
    expect(await left()).toEqual(['.lathe.json', 'config.json', 'model.safetensors', 'tokenizer.json']);
    await writeFile(join(home(), 'tokenizer.json'), 'changed');
    expect((await run()).alreadyPresent).toBe(false);
    expect(await readFile(join(home(), 'tokenizer.json'), 'utf8')).toBe('{"tokenizer.json":1}');
  });

  it('records what it brought, for checking it later', async () => {
    await run();
    hub.files = [{ path: 'tiny-F16.gguf', content }];
    await run();
    const record = await readRecord(home());
    expect(record?.repository).toBe(repo);
    expect(Object.keys(record?.files ?? {})).toEqual(['tiny-Q8_0.gguf', 'tiny-F16.gguf']);
    const hex = createHash('sha256').update(content).digest('hex');
    expect(record?.files['tiny-F16.gguf']).toEqual({
      sizeBytes: content.length,
      checksum: { kind: 'sha256', hex },
      revision: 'main',
    });
  });

  it('is refused before the first byte when the disk has no room for all of them', async () => {
    hub.files = parts;
    hub.fault = (request, response) => {
      if (!request.url?.includes('/api/models/')) return false;
      const oid = 'ab'.repeat(32);
      const entries = parts.map(({ path }) => ({
        type: 'file',
        path,
        oid,
        size: 1,
        lfs: { oid, size: 2 ** 50, pointerSize: 1 },
      }));
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(entries));
      return true;
    };
    await expect(run()).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining(`needs ${3 * 2 ** 50} more bytes`),
    });
    expect(ranges()).toEqual([]);
  });
});

describe('a pull that is cut mid-file', () => {
  /** The hub cuts every answer after 100,000 bytes, `times` times. */
  const cut = (times: number) => {
    let cuts = 0;
    hub.fault = (request, response) => {
      if (!isContent(request) || cuts >= times) return false;
      cuts += 1;
      sendFile(file, request, response, cutAfter(100_000, file.path, cuts * 100_000));
      return true;
    };
  };

  it('goes on by itself, fetching nothing twice', async () => {
    cut(2);
    const { path } = await run();
    expect(new Uint8Array(await readFile(path))).toEqual(content);
    expect(ranges()).toEqual(['bytes=0-', 'bytes=100000-', 'bytes=200000-']);
  });

  it('goes on in the next run when the server stays away', async () => {
    cut(1);
    const down = hub.fault;
    hub.fault = (request, response) => {
      if (down(request, response)) return true;
      if (isContent(request)) response.writeHead(503).end();
      return isContent(request);
    };
    await expect(run()).rejects.toMatchObject({
      code: 'interrupted',
      message: expect.stringMatching(/stopped at 100000 of 300000 bytes \(HTTP 503.*run the command again/),
    });
    expect(await left()).toEqual(['tiny-Q8_0.gguf.part', 'tiny-Q8_0.gguf.part.json']);

    hub.fault = () => false;
    hub.log.length = 0;
    const seen: number[] = [];
    const { path } = await run({ onProgress: ({ done }) => seen.push(done) });
    expect(new Uint8Array(await readFile(path))).toEqual(content);
    expect(ranges()).toEqual(['bytes=100000-']);
    expect(seen[0]).toBe(100_000);
    expect(await left()).toEqual(['.lathe.json', 'tiny-Q8_0.gguf']);
  });

  it('starts over when the file changed on the hub meanwhile', async () => {
    cut(1);
    await expect(run({ retry: { ...quick, attempts: 1 } })).rejects.toMatchObject({ code: 'interrupted' });
    const changed = new Uint8Array(randomBytes(300_000));
    hub.files = [{ ...file, content: changed }];
    hub.log.length = 0;
    expect(new Uint8Array(await readFile((await run()).path))).toEqual(changed);
    expect(ranges()).toEqual(['bytes=0-']);
  });

  it('takes the whole file again from a server that ignores ranges', async () => {
    cut(1);
    const first = hub.fault;
    hub.fault = (request, response) => {
      if (first(request, response)) return true;
      if (isContent(request)) response.writeHead(200).end(content);
      return isContent(request);
    };
    expect(new Uint8Array(await readFile((await run()).path))).toEqual(content);
  });

  it('outlives a connection that stalls', async () => {
    let stalled = false;
    hub.fault = (request) => {
      if (!isContent(request) || stalled) return false;
      stalled = true;
      return true;
    };
    expect(
      new Uint8Array(await readFile((await run({ retry: { ...quick, attempts: 50, idleMs: 300 } })).path)),
    ).toEqual(content);
  });

  it('says when a server stalls in mid-body, drops it and goes on, and gives up after so many attempts', async () => {
    const notices: string[] = [];
    // Each connection brings a little and then nothing.
    hub.fault = (request, response) => {
      if (!isContent(request)) return false;
      const { first } = rangeOf(request.headers.range, content.length) ?? { first: 0 };
      response.writeHead(206, { 'content-range': `bytes ${first}-299999/300000` });
      response.write(content.subarray(first, first + 1000));
      return true;
    };
    const retry = { attempts: 3, retryDelayMs: 1, idleMs: 300, noticeMs: 20 };
    await expect(run({ retry, onNotice: (notice) => void notices.push(notice) })).rejects.toMatchObject({
      code: 'interrupted',
      message: expect.stringMatching(
        /stopped at \d+ of 300000 bytes \(no data for 0.3 s, 3 attempts\); run the command again/,
      ),
    });
    expect(ranges()).toHaveLength(3);
    const noticeText = notices.join('\n');
    for (const attempt of [1, 2, 3])
      expect(noticeText).toContain(
        `no data for 0.02 s; the connection is dropped after 0.3 s without any (attempt ${attempt} of 3)`,
      );
    expect(noticeText).toMatch(/^tiny-Q8_0.gguf, .* of 293 KiB: no data for 0.3 s; connecting again/m);
    // What came is kept.
    hub.fault = () => false;
    expect(new Uint8Array(await readFile((await run()).path))).toEqual(content);
  });

  it('says when the list of files does not come, and gives up', async () => {
    const notices: string[] = [];
    hub.fault = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('[');
      return true;
    };
    const retry = { ...quick, idleMs: 300, noticeMs: 20 };
    await expect(run({ retry, onNotice: (notice) => void notices.push(notice) })).rejects.toMatchObject({
      code: 'server',
      message: `cannot reach ${hub.url}: no data for 0.3 s`,
    });
    expect(notices.join()).toContain(`${hub.url}: no data for 0.02 s`);
  });

  it('stops at once when it is aborted, and keeps what came', async () => {
    const stop = new AbortController();
    hub.fault = (request, response) => {
      if (!isContent(request)) return false;
      response.writeHead(206, { 'content-range': 'bytes 0-299999/300000' });
      response.write(content.subarray(0, 50_000));
      return true;
    };
    const running = run({
      signal: stop.signal,
      onProgress: ({ done }) => done >= 50_000 && stop.abort(new Error('stopped by the user')),
    });
    await expect(running).rejects.toThrow('stopped by the user');
    expect((await readFile(join(home(), 'tiny-Q8_0.gguf.part'))).length).toBe(50_000);
  });
});

describe('a pull that cannot succeed', () => {
  it('refuses a wrong checksum and leaves nothing behind', async () => {
    const wrongChecksum = '0'.repeat(64);
    hub.files = [{ ...file, wrongChecksum }];
    await expect(run()).rejects.toMatchObject({
      code: 'checksum',
      message: expect.stringMatching(/does not match its sha256 \(expected 0{64}, got [0-9a-f]{64}\)/),
    });
    expect(await left()).toEqual([]);
    hub.files = [{ ...file, small: true, wrongChecksum: '1'.repeat(40) }];
    await expect(run()).rejects.toMatchObject({ code: 'checksum' });
  });

  it('finds out that the kept part was damaged', async () => {
    await mkdir(home(), { recursive: true });
    const checksum = createHash('sha256').update(content).digest('hex');
    await writeFile(join(home(), 'tiny-Q8_0.gguf.part'), new Uint8Array(1000));
    await writeFile(join(home(), 'tiny-Q8_0.gguf.part.json'), JSON.stringify({ checksum }));
    await expect(run()).rejects.toMatchObject({ code: 'checksum' });
    // The next run is a clean one.
    expect(new Uint8Array(await readFile((await run()).path))).toEqual(content);
  });

  it.each<[string, number, string, RegExp]>([
    [
      'is unknown or private',
      401,
      'unauthorized',
      /the repository does not exist or is not public.*HF_TOKEN/,
    ],
    ['is gated', 403, 'unauthorized', /accept the model's terms/],
    ['does not exist', 404, 'not_found', /the repository or its revision 'main' does not exist/],
    ['is on a broken server', 500, 'server', /HTTP 500/],
  ])('says why when the repository %s', async (_, status, code, message) => {
    hub.fault = (_request, response) => Boolean(response.writeHead(status).end());
    await expect(run()).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it('says why when only the content is refused, and when the token is wrong', async () => {
    hub.fault = (request, response) => {
      if (isContent(request)) response.writeHead(401).end();
      return isContent(request);
    };
    await expect(run()).rejects.toMatchObject({ code: 'unauthorized' });
    hub.token = 'right';
    await expect(run({ token: 'wrong' })).rejects.toMatchObject({
      code: 'unauthorized',
      message: expect.stringContaining('the hub does not accept the token in HF_TOKEN'),
    });
  });

  it.each<[string, string, RegExp]>([
    [
      'HTML',
      '<!doctype html><p>Please log in',
      /is not JSON from a hub: it is HTML or XML; check HF_ENDPOINT/,
    ],
    ['broken JSON', '[{"type": "file", ', /is not JSON from a hub: .*JSON.*; check HF_ENDPOINT/],
    ['no list', '{"files": []}', /the file list of owner\/tiny-GGUF is not valid; check HF_ENDPOINT/],
    ['a list of other things', '[null, 5]', /the file list of owner\/tiny-GGUF is not valid/],
  ])('says so when the hub answers with %s', async (_, body, message) => {
    hub.fault = (_request, response) =>
      Boolean(response.writeHead(200, { 'content-type': 'application/json' }).end(body));
    const failing = run();
    await expect(failing).rejects.toMatchObject({ code: 'server' });
    await expect(failing).rejects.toThrow(message);
    expect(hub.log).toHaveLength(1);
  });

  it.each<[string, (page: number) => number, number]>([
    ['names a page that came before as the next one', (page) => 1 - (page % 2), 3],
    ['always names another page', (page) => page + 1, 200],
  ])('ends when the list of files %s', async (_, next, pages) => {
    hub.fault = (request, response) => {
      const page = Number(new URL(request.url ?? '/', hub.url).searchParams.get('page'));
      const link = `<${hub.url}/api/models/${repo}/tree/main?page=${next(page)}>; rel="next"`;
      response.writeHead(200, { 'content-type': 'application/json', link }).end('[]');
      return true;
    };
    await expect(run()).rejects.toMatchObject({
      code: 'server',
      message: expect.stringMatching(/the file list of owner\/tiny-GGUF does not end/),
    });
    expect(hub.log).toHaveLength(pages);
  });

  it('reads a list of several pages, and shows the token to the hub alone', async () => {
    const seen: (string | undefined)[] = [];
    const other = await serve((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(200, { 'content-type': 'application/json' }).end('[]');
    });
    hub.token = 'secret';
    hub.fault = (request, response) => {
      if (request.url?.includes('/tree/'))
        response.setHeader('link', `<${other.url}/api/models/${repo}/tree/main?page=2>; rel="next"`);
      return false;
    };
    await run({ token: 'secret' });
    expect(seen).toEqual([undefined]);
    await other.close();
  });

  it('says why when the hub does not answer', async () => {
    const { url } = hub;
    await hub.close();
    await expect(run({ endpoint: url })).rejects.toMatchObject({
      code: 'server',
      message: expect.stringMatching(/cannot reach .*: .*ECONNREFUSED/),
    });
  });

  it.each<[string, Record<string, string>, number, string]>([
    ['another size than announced', { 'content-length': '5' }, 200, 'server'],
    ['another range than asked for', { 'content-range': 'bytes 5-9/300000' }, 206, 'server'],
    ['a file of another size', { 'content-range': 'bytes 0-4/5' }, 206, 'server'],
  ])('refuses %s', async (_, headers, status, code) => {
    hub.fault = (request, response) => {
      if (isContent(request)) response.writeHead(status, headers).end('12345');
      return isContent(request);
    };
    await expect(run()).rejects.toMatchObject({ code });
  });

  it('refuses more bytes than the file has', async () => {
    hub.fault = (request, response) => {
      if (isContent(request)) response.writeHead(200).end(new Uint8Array(content.length + 1));
      return isContent(request);
    };
    await expect(run()).rejects.toMatchObject({
      code: 'server',
      message: expect.stringContaining('sent more than'),
    });
  });

  it('refuses a server that names a file outside of the repository', async () => {
    for (const path of ['../../evil.gguf', 'a/../../evil.gguf', '/etc/evil.gguf', 'a\\..\\evil.gguf']) {
      hub.files = [{ path, content }];
      await expect(run()).rejects.toMatchObject({
        code: 'server',
        message: expect.stringContaining('not a valid path inside'),
      });
    }
  });

  it.each(['tiny', 'a/b/c', '../x', 'owner/..', 'owner/na me', ''])(
    'refuses %o as a repository',
    async (name) => {
      await expect(run({ repo: name })).rejects.toMatchObject({ code: 'invalid_reference' });
      expect(hub.log).toEqual([]);
    },
  );

  it('refuses before the download when the disk has too little room', async () => {
    hub.fault = (request, response) => {
      if (isContent(request)) return false;
      const huge = {
        type: 'file',
        path: file.path,
        size: 2 ** 50,
        oid: '0',
        lfs: { oid: '0', size: 2 ** 50 },
      };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify([huge]));
      return true;
    };
    await expect(run()).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/needs 1125899906842624 more bytes, but the disk has only \d+ free/),
    });
    expect(ranges()).toEqual([]);
  });
});

/** A file system of 256 KiB, where this user may mount one. */
const mountSmallDisk = (path: string): boolean =>
  spawnSync('sh', ['-c', 'mount -t tmpfs -o size=256k tmpfs "$0"', path]).status === 0;

describe('a disk that fills up while the file comes', () => {
  it('is reported as a full disk; the part is kept, and the next run resumes', async (context) => {
    const disk = join(folder, 'disk');
    await mkdir(disk);
    if (!mountSmallDisk(disk)) return context.skip('no right to mount a small disk here');
    try {
      const small = { path: 'tiny-Q8_0.gguf', content: content.subarray(0, 200_000) };
      hub.files = [small];
      // Something else takes the room after the check, when the first half is in.
      let filler: Promise<void> | undefined;
      const filled = Promise.withResolvers<void>();
      let half = false;
      let halves = 0;
      hub.fault = (request, response) => {
        if (!isContent(request)) return false;
        if (halves++ === 0) sendFile(small, request, response, { bytes: 100_000, received: () => half });
        else void filled.promise.then(() => sendFile(small, request, response));
        return true;
      };
      const fill = ({ done }: { done: number }) => {
        half ||= done >= 100_000;
        if (half)
          filler ??= writeFile(join(disk, 'filler'), new Uint8Array(140_000))
            .catch(() => {})
            .finally(() => filled.resolve());
      };
      await expect(run({ destination: disk, onProgress: fill })).rejects.toMatchObject({
        code: 'disk_full',
        message: expect.stringMatching(/the disk is full; free some space/),
      });
      await filler;
      await rm(join(disk, 'filler'));
      hub.log.length = 0;
      const { path } = await run({ destination: disk });
      expect(new Uint8Array(await readFile(path))).toEqual(small.content);
      expect(Number(/bytes=(\d+)-/.exec(ranges()[0] ?? '')?.[1])).toBeGreaterThanOrEqual(100_000);
    } finally {
      spawnSync('sh', ['-c', 'umount -l "$0"', disk]);
    }
  });
});
