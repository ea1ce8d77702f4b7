import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { ModelFileError } from '../../src/engine/formats/model-file.ts';
import { openHttpFile } from '../../src/platform/http-file.ts';
import { ggufBytes, texts, u32 } from '../support/gguf-writer.ts';
import { type LocalServer, rangeOf, serve } from '../support/local-server.ts';
import { openSource } from '../support/byte-source.ts';

const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 31 + (index >> 8)) & 255);
const quick = { attempts: 3, retryDelayMs: 1, idleMs: 120_000 };

let server: LocalServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

type Answer = (request: IncomingMessage, response: ServerResponse, count: number) => boolean;

/** Serves `content` by ranges. `fault` may answer in place of that (and then returns true); `count` starts at 1. */
const serveFile = async (content: Uint8Array, fault: Answer = () => false): Promise<string> => {
  let count = 0;
  server = await serve((request, response) => {
    count += 1;
    if (fault(request, response, count)) return;
    const range = rangeOf(request.headers.range, content.length);
    if (!range) {
      response.writeHead(200, { 'content-length': content.length }).end(content);
      return;
    }
    response.writeHead(206, { ...contentRange(range, content.length), etag: '"1"' });
    response.end(content.subarray(range.first, range.last + 1));
  });
  return `${server.url}/model.gguf`;
};

const contentRange = ({ first, last }: { first: number; last: number }, size: number) => ({
  'content-length': last - first + 1,
  'content-range': `bytes ${first}-${last}/${size}`,
});

const code = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'no error',
    (error: unknown) => (error instanceof ModelFileError ? error.code : String(error)),
  );

describe('a model on a web server', () => {
  it('is read by ranges, into the given array', async () => {
    const source = await openHttpFile(await serveFile(bytes), quick);
    expect(source.sizeBytes).toBe(bytes.length);
    expect(await source.read(0, 10)).toEqual(bytes.slice(0, 10));
    expect(await source.read(99_990, 10)).toEqual(bytes.slice(99_990));
    expect(await source.read(5, 0)).toHaveLength(0);
    const into = new Uint8Array(64);
    expect((await source.read(1000, 50, into)).buffer).toBe(into.buffer);
    expect(into.subarray(0, 50)).toEqual(bytes.slice(1000, 1050));
    await expect(source.read(99_990, 11)).rejects.toThrow(RangeError);
    await source.close();
  });

  it('opens as GGUF', async () => {
    const file = ggufBytes({
      metadata: [['answer', u32(42)]],
      tensors: [{ name: 'w', type: 'F32', shape: [2, 2], data: () => new Uint8Array(16).fill(9) }],
    });
    const model = await openSource(await openHttpFile(await serveFile(file), quick));
    expect(model.metadata.get('answer')).toBe(42);
    const info = model.tensors.get('w');
    expect(info && (await model.readRows(info, 1, 1))).toEqual(new Uint8Array(8).fill(9));
    await model.close();
  });

  it('opens with few requests, however large its vocabulary is', async () => {
    const tokens = texts(Array.from({ length: 262_144 }, (_, id) => `a long token ${id}`));
    const file = ggufBytes({ metadata: [['tokens', tokens]], tensors: [] });
    let requests = 0;
    const model = await openSource(
      await openHttpFile(
        await serveFile(file, () => {
          requests += 1;
          return false;
        }),
        quick,
      ),
    );
    expect(model.metadata.get('tokens')).toHaveLength(262_144);
    // The size, the first bytes, and 1, 2 and 4 MiB at a time.
    expect(file.length).toBeGreaterThan(6 << 20);
    expect(requests).toBeLessThanOrEqual(6);
    await model.close();
  });

  it('resumes after a closed connection, without requesting received bytes again', async () => {
    const requests: string[] = [];
    const url = await serveFile(bytes, (request, response) => {
      requests.push(request.headers.range ?? '');
      const range = rangeOf(request.headers.range, bytes.length);
      // Every answer to a long request dies after 30,000 bytes.
      if (!range || range.last - range.first < 30_000) return false;
      response.writeHead(206, { ...contentRange(range, bytes.length), etag: '"1"' });
      response.write(bytes.subarray(range.first, range.first + 30_000), () =>
        setTimeout(() => response.destroy(), 20),
      );
      return true;
    });
    const source = await openHttpFile(url, quick);
    expect(await source.read(0, bytes.length)).toEqual(bytes);
    expect(requests).toEqual([
      'bytes=0-0',
      'bytes=0-99999',
      'bytes=30000-99999',
      'bytes=60000-99999',
      'bytes=90000-99999',
    ]);
  });

  it('survives a busy server and a stalled connection', async () => {
    const url = await serveFile(bytes, (_, response, count) => {
      if (count === 2) response.writeHead(503).end();
      // The third request gets no response.
      return count === 2 || count === 3;
    });
    const source = await openHttpFile(url, { ...quick, attempts: 50, idleMs: 300 });
    expect(await source.read(10, 20)).toEqual(bytes.slice(10, 30));
  });

  it('reports a server that stalls in a body, and gives up after several attempts with little progress', async () => {
    const notices: string[] = [];
    let requests = 0;
    const url = await serveFile(bytes, (request, response) => {
      const range = rangeOf(request.headers.range, bytes.length);
      // Opening it asks for its first byte.
      if (!range || range.last === 0) return false;
      requests += 1;
      response.writeHead(206, { ...contentRange(range, bytes.length), etag: '"1"' });
      response.write(bytes.subarray(range.first, range.first + 10));
      return true;
    });
    const onNotice = (notice: string) => void notices.push(notice);
    const source = await openHttpFile(url, {
      attempts: 3,
      retryDelayMs: 1,
      idleMs: 300,
      noticeMs: 20,
      onNotice,
    });
    await expect(source.read(0, 1000)).rejects.toThrow(`${url}: no data for 0.3 s (3 attempts)`);
    expect(requests).toBe(3);
    const dropped = 'the connection is dropped after 0.3 s without any';
    expect(notices).toContain(`${url}: no data for 0.02 s; ${dropped} (attempt 1 of 3)`);
    expect(notices).toContain(`${url}: no data for 0.3 s; connecting again (attempt 3 of 3)`);
  });

  it('gives up after the maximum number of attempts, with the reason', async () => {
    let requests = 0;
    const url = await serveFile(bytes, (_, response, count) => {
      requests = count;
      if (count > 1) response.writeHead(503).end();
      return count > 1;
    });
    const source = await openHttpFile(url, quick);
    await expect(source.read(0, 10)).rejects.toThrow(`${url}: HTTP 503 (3 attempts)`);
    expect(requests).toBe(4);
  });

  it.each<[string, string, Answer]>([
    ['ignores ranges', 'no_ranges', (_, response) => Boolean(response.writeHead(200).end(bytes))],
    ['has no such file', 'not_found', (_, response) => Boolean(response.writeHead(404).end())],
    ['refuses', 'forbidden', (_, response) => Boolean(response.writeHead(403).end())],
    ['fails', 'unreadable', (_, response) => Boolean(response.writeHead(418).end())],
    ['has an empty file', 'truncated', (_, response) => Boolean(response.writeHead(416).end())],
    [
      'does not tell the size',
      'no_ranges',
      (_, response) => Boolean(response.writeHead(206, { 'content-range': 'bytes 0-0/*' }).end('x')),
    ],
  ])('is refused when the server %s', async (_, expected, fault) => {
    expect(await code(openHttpFile(await serveFile(bytes, fault), quick))).toBe(expected);
  });

  /** Answers the first request and those that follow with these headers; `size` is sent as the size of the file. */
  const twoAnswers = (first: Headers, then: Headers): Promise<string> =>
    serveFile(bytes, (request, response, count) => {
      const range = rangeOf(request.headers.range, bytes.length);
      if (!range) return false;
      const { size = bytes.length, ...headers } = count < 2 ? first : then;
      response.writeHead(206, { ...contentRange(range, size), ...headers });
      response.end(bytes.subarray(range.first, range.last + 1));
      return true;
    });
  type Headers = { readonly size?: number; readonly etag?: string; readonly 'last-modified'?: string };
  const monday = { 'last-modified': 'Mon, 05 Jan 2026 10:00:00 GMT' };
  const tuesday = { 'last-modified': 'Tue, 06 Jan 2026 10:00:00 GMT' };

  it.each<[string, Headers, Headers]>([
    ['a strong ETag', { etag: '"1"' }, { etag: '"2"' }],
    ['its size', { etag: '"1"' }, { etag: '"1"', size: 99_999 }],
    ['its size alone', {}, { size: 100_001 }],
    ['the time of its change', monday, tuesday],
    [
      'the time of its change beside a weak ETag',
      { etag: 'W/"1"', ...monday },
      { etag: 'W/"1"', ...tuesday },
    ],
  ])('is rejected when %s shows that it changed while reading', async (_, first, then) => {
    const source = await openHttpFile(await twoAnswers(first, then), quick);
    expect(await code(source.read(0, 10))).toBe('changed');
  });

  it.each<[string, Headers, Headers]>([
    ['a weak ETag', { etag: 'W/"1"' }, { etag: 'W/"2"' }],
    ['an ETag that is there at times', { etag: '"1"', ...monday }, monday],
    ['the time beside a strong ETag', { etag: '"1"', ...monday }, { etag: '"1"', ...tuesday }],
  ])('is accepted as unchanged whatever happens to %s', async (_, first, then) => {
    const source = await openHttpFile(await twoAnswers(first, then), quick);
    expect(await source.read(0, 10)).toEqual(bytes.slice(0, 10));
  });

  it('with a listed size has that size, and its ETags are ignored', async () => {
    const url = await twoAnswers({ etag: '"1"', ...monday }, { etag: '"2"', ...tuesday });
    const source = await openHttpFile(url, { ...quick, sizeBytes: bytes.length });
    expect(await source.read(0, 10)).toEqual(bytes.slice(0, 10));
    await expect(openHttpFile(url, { ...quick, sizeBytes: 99_999 })).rejects.toMatchObject({
      code: 'changed',
      message: expect.stringMatching(/has 100000 bytes, but the list says 99999/),
    });
  });

  it('is rejected when the server sends another range than requested', async () => {
    const url = await serveFile(bytes, (_, response, count) => {
      if (count > 1)
        response
          .writeHead(206, { ...contentRange({ first: 0, last: 9 }, bytes.length), etag: '"1"' })
          .end(bytes.subarray(0, 10));
      return count > 1;
    });
    const source = await openHttpFile(url, quick);
    expect(await code(source.read(50, 10))).toBe('no_ranges');
  });

  it('stops reading when it is closed', async () => {
    const url = await serveFile(bytes, (_, __, count) => count > 1);
    const source = await openHttpFile(url, quick);
    const reading = source.read(0, 10);
    await source.close();
    await expect(reading).rejects.toThrow('was closed');
  });
});
