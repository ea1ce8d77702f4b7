import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createSocketServer, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { WireKind } from '../../src/wires/providers.ts';
import { UndiciTransport, type TransportOptions } from '../../src/gateway/upstream/transport.ts';
import { type UpstreamRequest, type UpstreamReply } from '../../src/gateway/upstream/types.ts';
import { HttpError } from '../../src/http/error.ts';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import type { AnswerBatches, Backend, BackendRequest } from '../../src/wires/core/backend.ts';
import { UpstreamFailure } from '../../src/wires/core/upstream-failure.ts';
import type { SseFrame } from '../../src/wires/core/wire.ts';
import { aCandidate, aSending } from '../support/gateway/candidates.ts';
import { serve } from '../support/local-server.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

function transport(options: TransportOptions = {}): UndiciTransport {
  const made = new UndiciTransport(options);
  closing.push(() => made.close());
  return made;
}

type Handle = (request: IncomingMessage, response: ServerResponse) => unknown;
interface Upstream {
  readonly baseUrl: string;
  readonly seen: IncomingMessage[];
  readonly sockets: Set<Socket>;
}
async function upstream(handle: Handle): Promise<Upstream> {
  const seen: IncomingMessage[] = [];
  const sockets = new Set<Socket>();
  const server = await serve((request, response) => {
    seen.push(request);
    sockets.add(request.socket);
    request.resume();
    handle(request, response);
  });
  closing.push(() => server.close());
  return { baseUrl: `${server.url}/v1`, seen, sockets };
}

/** Speaks bytes, not HTTP. */
async function rawUpstream(talk: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createSocketServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    talk(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function failure(promise: Promise<unknown>): Promise<UpstreamFailure> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UpstreamFailure);
  return error as UpstreamFailure;
}
const summary = ({ error: { status, type, code }, isRetryable, isUnhealthy }: UpstreamFailure) => ({
  status,
  type,
  code,
  isRetryable,
  isUnhealthy,
});
const failed = {
  status: 502,
  type: 'upstream_error',
  code: 'upstream_failed',
  isRetryable: true,
  isUnhealthy: true,
};
const late = { ...failed, status: 504, code: 'upstream_timeout' };

async function all(reply: UpstreamReply): Promise<string[]> {
  const data: string[] = [];
  for await (const frame of reply.frames()) data.push(frame.data);
  return data;
}
const streaming = { stream: true } as const;
const sse = { 'content-type': 'text/event-stream' };
const frame = (data: string) => `data: ${data}\n\n`;

describe('a request to a provider', () => {
  it.each<[WireKind, Record<string, string>]>([
    ['openai-chat', { authorization: 'Bearer sk-house' }],
    ['openai-responses', { authorization: 'Bearer sk-house' }],
    ['lathe', { authorization: 'Bearer sk-house' }],
    ['anthropic-messages', { 'x-api-key': 'sk-house', 'anthropic-version': '2023-06-01' }],
    ['google', { 'x-goog-api-key': 'sk-house' }],
  ])('carries the credential as %s wants it, and nothing else of a caller', async (wire, credential) => {
    const { baseUrl, seen } = await upstream((_, response) => response.end('{}'));
    const reply = await transport().send(
      aSending(aCandidate(baseUrl, { wire }), {
        body: {
          path: '/a/path?alt=sse',
          headers: { 'x-more': '1', authorization: 'Bearer sk-house' },
          text: '{"ä":1}',
        },
      }),
    );
    expect(await reply.text()).toBe('{}');
    const request = seen.find(({ method }) => method === 'POST');
    expect(request?.url).toBe('/v1/a/path?alt=sse');
    const { host, connection, ...headers } = request?.headers ?? {};
    expect([host, connection]).toEqual([new URL(baseUrl).host, 'keep-alive']);
    expect(headers).toEqual({
      accept: 'application/json',
      'accept-encoding': 'identity',
      'content-type': 'application/json',
      'content-length': '8',
      'user-agent': 'lathe',
      'x-more': '1',
      authorization: 'Bearer sk-house',
      ...credential,
    });
  });

  it('lets the wire set its version header, and nothing override the credential', async () => {
    const { baseUrl, seen } = await upstream((_, response) => response.end());
    const send = (candidate: UpstreamRequest['candidate'], headers: Record<string, string>) =>
      transport().send(aSending(candidate, { stream: true, body: { path: '/x', headers, text: '' } }));
    await send(aCandidate(baseUrl, { wire: 'anthropic-messages' }), { 'anthropic-version': '2099-01-01' });
    expect(seen[0]?.headers).toMatchObject({
      'anthropic-version': '2099-01-01',
      accept: 'text/event-stream',
    });
    await send(aCandidate(baseUrl), { authorization: 'Bearer sk-other' });
    expect(seen[1]?.headers.authorization).toBe('Bearer sk-house');
    const { model } = aCandidate(baseUrl);
    await send({ model, credential: { kind: 'house', apiKey: undefined } }, {});
    expect(seen[2]?.headers.authorization).toBeUndefined();
  });

  it('resolves with every status, including redirects, which it does not follow', async () => {
    let asked = 0;
    const { baseUrl } = await upstream((request, response) => {
      asked += 1;
      const status = Number(request.url?.slice(4));
      response.writeHead(status, { location: '/v1/200', 'retry-after': '3', 'x-two': ['a', 'b'] });
      response.end(`{"status":${status}}`);
    });
    for (const status of [200, 201, 301, 302, 307, 308, 400, 401, 404, 429, 500, 529]) {
      const reply = await transport().send(
        aSending(aCandidate(baseUrl), { body: { path: `/${status}`, headers: {}, text: '{}' } }),
      );
      expect(reply.status).toBe(status);
      expect(reply.headers).toMatchObject({ 'retry-after': '3', 'x-two': 'a, b' });
      expect(await reply.text()).toBe(`{"status":${status}}`);
    }
    expect(asked).toBe(12);
  });

  it('reuses connections', async () => {
    const { baseUrl, seen, sockets } = await upstream((_, response) => response.end('{}'));
    const way = transport();
    for (let n = 0; n < 20; n += 1) await (await way.send(aSending(aCandidate(baseUrl)))).text();
    expect(seen).toHaveLength(20);
    // The next request may be there before the connection of the last one is free.
    expect(sockets.size).toBeLessThanOrEqual(2);
  });

  it('serves a thousand concurrent requests, each with its own answer', async () => {
    const { baseUrl } = await upstream((request, response) => {
      response.writeHead(200, sse);
      response.write(frame(`${request.url} begins`));
      setTimeout(() => response.end(frame(`${request.url} ends`)), 20);
    });
    const way = transport();
    const answers = await Promise.all(
      Array.from({ length: 1000 }, async (_, n) =>
        all(
          await way.send(
            aSending(aCandidate(baseUrl), {
              ...streaming,
              body: { path: `/${n}`, headers: {}, text: '{}' },
            }),
          ),
        ),
      ),
    );
    expect(answers).toEqual(Array.from({ length: 1000 }, (_, n) => [`/v1/${n} begins`, `/v1/${n} ends`]));
  });

  it('with an invalid header is rejected, without the credential in the message', async () => {
    const { baseUrl, seen } = await upstream((_, response) => response.end());
    const refused = await failure(
      transport().send(aSending(aCandidate(baseUrl, { apiKey: 'sk-secret\nx: y' }))),
    );
    expect(summary(refused)).toEqual({ ...failed, isRetryable: false, isUnhealthy: false });
    const invalidUrl = await failure(transport().send(aSending(aCandidate('not a url with sk-secret'))));
    expect(summary(invalidUrl)).toEqual({ ...failed, isRetryable: false, isUnhealthy: false });
    for (const { error } of [refused, invalidUrl]) expect(error.message).not.toContain('sk-secret');
    expect(seen).toEqual([]);
  });
});

describe('an answer', () => {
  it('is read as the frames that were sent, however they are split', async () => {
    const text = 'event: a\ndata: {"ä":"漢😀"}\n\n: ping\n\ndata: two\r\n\r\ndata: [DONE]\n\n';
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(70), { maxLength: 6 }), async (cuts) => {
        const bytes = Buffer.from(text);
        const ends = [...new Set([...cuts, bytes.length])].sort((a, b) => a - b);
        const { baseUrl } = await upstream(async (_, response) => {
          response.writeHead(200, sse);
          let from = 0;
          for (const end of ends) {
            response.write(bytes.subarray(from, end));
            from = end;
            await new Promise((resolve) => setImmediate(resolve));
          }
          response.end();
        });
        const reply = await transport().send(aSending(aCandidate(baseUrl), streaming));
        const frames: SseFrame[] = [];
        for await (const one of reply.frames()) frames.push(one);
        expect(frames.map(({ event, data }) => [event, data])).toEqual([
          ['a', '{"ä":"漢😀"}'],
          [undefined, 'two'],
          [undefined, '[DONE]'],
        ]);
        expect(frames.map(({ raw }) => raw).join('')).toBe(text);
      }),
      { numRuns: 40 },
    );
  });

  it('arrives frame by frame, while the provider is still sending', async () => {
    let go: () => void = () => undefined;
    const { baseUrl } = await upstream((_, response) => {
      response.writeHead(200, sse);
      response.write(frame('1'));
      go = () => response.end(frame('2'));
    });
    const reply = await transport().send(aSending(aCandidate(baseUrl), streaming));
    const frames = reply.frames()[Symbol.asyncIterator]();
    expect((await frames.next()).value?.data).toBe('1');
    go();
    expect((await frames.next()).value?.data).toBe('2');
    expect((await frames.next()).done).toBe(true);
    expect((await frames.next()).done).toBe(true);
  });

  it.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
    ['identity', (bytes: Buffer) => bytes],
  ])('is decompressed from %s', async (coding, pack) => {
    const text = `${frame('ä'.repeat(100_000))}${frame('2')}`;
    const { baseUrl } = await upstream((_, response) => {
      response.writeHead(200, { ...sse, 'content-encoding': coding });
      const bytes = pack(Buffer.from(text));
      response.write(bytes.subarray(0, 20));
      setImmediate(() => response.end(bytes.subarray(20)));
    });
    const send = () => transport().send(aSending(aCandidate(baseUrl)));
    expect(await (await send()).text()).toBe(text);
    expect(await all(await send())).toEqual(['ä'.repeat(100_000), '2']);
  });

  it('fails when it cannot be decompressed, or decompresses to too much', async () => {
    const bomb = gzipSync(Buffer.alloc(50_000_000));
    const answers: Record<string, [string, Buffer]> = {
      '/v1/broken': ['gzip', Buffer.from('not packed at all')],
      '/v1/half': ['gzip', bomb.subarray(0, 1000)],
      '/v1/bomb': ['gzip', bomb],
      '/v1/unknown': ['rot13', Buffer.from('x')],
    };
    const { baseUrl } = await upstream((request, response) => {
      const [coding, bytes] = answers[request.url ?? ''] ?? ['', Buffer.alloc(0)];
      response.writeHead(200, { 'content-encoding': coding });
      response.end(bytes);
    });
    const way = transport({ limits: { maxAnswerBytes: 1_000_000 } });
    for (const path of ['/broken', '/half', '/bomb', '/unknown']) {
      const read = async () =>
        (await way.send(aSending(aCandidate(baseUrl), { body: { path, headers: {}, text: '' } }))).text();
      expect(summary(await failure(read())), path).toEqual(failed);
    }
  });

  it('has limits to its size: of the body, of an event', async () => {
    let open = 0;
    const { baseUrl } = await upstream((request, response) => {
      open += 1;
      response.on('close', () => {
        open -= 1;
      });
      response.writeHead(200, sse);
      const more = () => {
        while (
          !response.destroyed &&
          response.write('data: x'.padEnd(10_000, request.url === '/v1/lines' ? '\n' : 'y'))
        );
        response.once('drain', more);
      };
      more();
    });
    const way = transport({ limits: { maxAnswerBytes: 3_000_000, maxEventChars: 1_000_000 } });
    const send = (path: string) =>
      way.send(aSending(aCandidate(baseUrl), { ...streaming, body: { path, headers: {}, text: '' } }));
    const whole = await failure((await send('/lines')).text());
    expect(whole.error.message).toContain('3000000 bytes');
    const endless = await failure(all(await send('/event')));
    expect(endless.error.message).toContain('1000000 characters');
    const long = await failure(all(await send('/lines')));
    expect(long.error.message).toContain('3000000 bytes');
    await expect.poll(() => open).toBe(0);
  });

  it('of an error is read as far as its message needs, even if it breaks off', async () => {
    const { baseUrl } = await upstream((request, response) => {
      response.writeHead(429, { 'content-length': '10000000' });
      response.write('{"error":"slow down"}');
      if (request.url === '/v1/long') response.end(Buffer.alloc(9_999_979, 32));
      else setTimeout(() => response.destroy(), 10);
    });
    for (const path of ['/long', '/cut']) {
      const reply = await transport().send(
        aSending(aCandidate(baseUrl), { body: { path, headers: {}, text: '' } }),
      );
      expect(reply.status).toBe(429);
      const text = await reply.text();
      expect(text.startsWith('{"error":"slow down"}')).toBe(true);
      expect(text.length).toBeLessThanOrEqual(64 * 1024);
    }
  });

  it('waits for a slow reader, and loses nothing', async () => {
    const count = 3000;
    let written = 0;
    const { baseUrl } = await upstream(async (_, response) => {
      response.writeHead(200, sse);
      for (; written < count; written += 1)
        if (!response.write(frame(`${written} ${'x'.repeat(10_000)}`))) await once(response, 'drain');
      response.end();
    });
    const reply = await transport({ limits: { streamIdleMs: 3000 } }).send(
      aSending(aCandidate(baseUrl), streaming),
    );
    const frames = reply.frames()[Symbol.asyncIterator]();
    await frames.next();
    // Longer than the limit for silence: it is ours, not the provider's.
    await new Promise((resolve) => setTimeout(resolve, 4000));
    expect(written).toBeLessThan(count);
    let read = 1;
    for (let next = await frames.next(); !next.done; next = await frames.next()) {
      expect(next.value.data.startsWith(`${read} `)).toBe(true);
      read += 1;
    }
    expect(read).toBe(count);
  });

  it('is read once', async () => {
    const { baseUrl } = await upstream((_, response) => response.end('data: x\n\n'));
    const reply = await transport().send(aSending(aCandidate(baseUrl)));
    expect(await reply.text()).toBe('data: x\n\n');
    expect(() => reply.frames()).toThrow('read once');
  });
});

describe('a provider that fails', () => {
  it('cannot be reached', async () => {
    const url = await rawUpstream(() => undefined);
    await Promise.all(closing.splice(0).map((close) => close()));
    const refused = await failure(transport().send(aSending(aCandidate(`${url}/v1`))));
    expect(summary(refused)).toEqual(failed);
    expect(refused.error.message).toMatch(/'acme' could not be reached \(econnrefused\)/);
    const unknown = await failure(
      transport({
        resolve: async () => {
          throw Object.assign(new Error('getaddrinfo for sk-secret'), { code: 'ENOTFOUND' });
        },
      }).send(aSending(aCandidate('http://nowhere.example/v1'))),
    );
    expect(summary(unknown)).toEqual(failed);
    expect(unknown.error.message).not.toContain('nowhere');
  });

  it.each([
    ['hangs up at once', (socket: Socket) => socket.destroy()],
    ['speaks no HTTP', (socket: Socket) => socket.end('SSH-2.0-OpenSSH\r\n\r\n')],
    ['ends within its head', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-ty')],
    [
      'has a head without end',
      (socket: Socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        for (let n = 0; n < 100; n += 1) socket.write(`x-${n}: ${'y'.repeat(1000)}\r\n`);
      },
    ],
    [
      'lies about its length',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort'),
    ],
    [
      'ends within a chunk',
      (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nshort'),
    ],
    [
      'has chunks that are none',
      (socket: Socket) => socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx'),
    ],
    [
      'resets',
      (socket: Socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n', () =>
          socket.resetAndDestroy(),
        );
      },
    ],
  ])('%s', async (_, talk) => {
    const url = await rawUpstream((socket) => {
      socket.once('data', () => talk(socket));
    });
    const read = async () => (await transport().send(aSending(aCandidate(`${url}/v1`)))).text();
    expect(summary(await failure(read()))).toEqual(failed);
    const stream = async () => all(await transport().send(aSending(aCandidate(`${url}/v1`), streaming)));
    expect(summary(await failure(stream()))).toEqual(failed);
  });

  it('breaks off a stream after what it sent', async () => {
    const { baseUrl } = await upstream((_, response) => {
      response.writeHead(200, sse);
      response.write(frame('1'));
      response.write(`${frame('2')}data: half`);
      setTimeout(() => response.destroy(), 20);
    });
    const reply = await transport().send(aSending(aCandidate(baseUrl), streaming));
    const got: string[] = [];
    const broken = await failure(
      (async () => {
        for await (const { data } of reply.frames()) got.push(data);
      })(),
    );
    expect(got).toEqual(['1', '2']);
    expect(summary(broken)).toEqual(failed);
  });

  it('does not accept a connection in time', async () => {
    // The name is never resolved: the connection does not come about.
    const way = transport({ limits: { connectMs: 50 }, resolve: () => new Promise(() => undefined) });
    const stuck = await failure(way.send(aSending(aCandidate('http://stuck.example/v1'))));
    expect(summary(stuck)).toEqual(late);
  });

  it('goes silent: before the head, within it, or before a whole line', async () => {
    const { baseUrl } = await upstream((request, response) => {
      if (request.url === '/v1/head') return;
      response.writeHead(200, sse);
      response.write(frame('1'));
      if (request.url === '/v1/drip') {
        const timer = setInterval(() => response.write('x'), 5);
        response.on('close', () => clearInterval(timer));
      }
    });
    const way = transport({ limits: { streamIdleMs: 100, bufferedMs: 100 } });
    const send = (path: string, stream: boolean) =>
      way.send(aSending(aCandidate(baseUrl), { stream, body: { path, headers: {}, text: '' } }));
    expect(summary(await failure(send('/head', true)))).toEqual(late);
    const read = async (path: string) => all(await send(path, true));
    expect(summary(await failure(read('/middle')))).toEqual(late);
    expect(summary(await failure(read('/drip')))).toEqual(late);
    // A whole answer has one limit, and a long one is no sign of bad health.
    expect(summary(await failure(send('/head', false)))).toEqual({ ...late, isUnhealthy: false });
    const dripping = async () => (await send('/drip', false)).text();
    expect(summary(await failure(dripping()))).toEqual({ ...late, isUnhealthy: false });
  });

  it('is read while it sends something now and then, up to the total limit', async () => {
    const { baseUrl } = await upstream((request, response) => {
      response.writeHead(200, sse);
      let n = 0;
      const timer = setInterval(() => {
        n += 1;
        response.write(n % 2 ? ': ping\n\n' : frame(`${n}`));
        if (n === 14 && request.url === '/v1/ends') response.end();
      }, 200);
      response.on('close', () => clearInterval(timer));
    });
    const send = (path: string, streamMs: number) =>
      transport({ limits: { streamIdleMs: 2500, streamMs } }).send(
        aSending(aCandidate(baseUrl), { ...streaming, body: { path, headers: {}, text: '' } }),
      );
    expect(await all(await send('/ends', 60_000))).toEqual(['2', '4', '6', '8', '10', '12', '14']);
    const endless = async () => all(await send('/endless', 500));
    expect(summary(await failure(endless()))).toEqual({ ...late, isUnhealthy: false });
  });
});

describe('aborting', () => {
  it('closes the connection: before the head, within a body, within a stream', async () => {
    let open = 0;
    let arrived = 0;
    const { baseUrl } = await upstream((request, response) => {
      open += 1;
      arrived += 1;
      request.socket.on('close', () => {
        open -= 1;
      });
      if (request.url === '/v1/head') return;
      response.writeHead(200, sse);
      response.write(frame('1'));
    });
    const reason = new Error('the caller is gone');
    const give = new AbortController();
    const send = (path: string) =>
      transport().send(
        aSending(aCandidate(baseUrl), {
          ...streaming,
          signal: give.signal,
          body: { path, headers: {}, text: '' },
        }),
      );
    const head = send('/head');
    const body = (await send('/body')).text();
    const frames = (await send('/frames')).frames()[Symbol.asyncIterator]();
    await frames.next();
    const next = frames.next();
    await expect.poll(() => arrived).toBe(3);
    const ends = Promise.allSettled([head, body, next]);
    give.abort(reason);
    expect(await ends).toEqual(Array.from({ length: 3 }, () => ({ status: 'rejected', reason })));
    await expect.poll(() => open).toBe(0);
    await expect(send('/late')).rejects.toBe(reason);
    expect(arrived).toBe(3);
  });

  it('while the connection is being established, sends nothing', async () => {
    const { baseUrl, seen } = await upstream((_, response) => response.end());
    let found: (addresses: { address: string; family: number }[]) => void = () => undefined;
    const way = transport({
      resolve: () =>
        new Promise((resolve) => {
          found = resolve;
        }),
    });
    const give = new AbortController();
    const url = new URL(baseUrl);
    const sent = way.send(
      aSending(aCandidate(`http://somewhere.example:${url.port}/v1`), { signal: give.signal }),
    );
    setImmediate(() => give.abort(new Error('enough')));
    await expect(sent).rejects.toThrow('enough');
    found([{ address: '127.0.0.1', family: 4 }]);
    // The next one over the same connection is the first that arrives.
    const after = way.send(
      aSending(aCandidate(`http://somewhere.example:${url.port}/v1`), {
        body: { path: '/after', headers: {}, text: '' },
      }),
    );
    setImmediate(() => found([{ address: '127.0.0.1', family: 4 }]));
    await (await after).text();
    expect(seen.map(({ url: path }) => path)).toEqual(['/v1/after']);
  });

  it('with `cut`, or by leaving a loop over frames', async () => {
    let open = 0;
    const { baseUrl } = await upstream((request, response) => {
      open += 1;
      request.socket.on('close', () => {
        open -= 1;
      });
      response.writeHead(200, sse);
      response.write(frame('1'));
    });
    const send = () => transport().send(aSending(aCandidate(baseUrl), streaming));
    (await send()).cut();
    await expect.poll(() => open).toBe(0);
    const left = await send();
    for await (const { data } of left.frames()) {
      expect(data).toBe('1');
      break;
    }
    await expect.poll(() => open).toBe(0);
    const cut = await send();
    const frames = cut.frames()[Symbol.asyncIterator]();
    await frames.next();
    const next = frames.next();
    cut.cut();
    cut.cut();
    expect(summary(await failure(next))).toEqual({ ...failed, isRetryable: false, isUnhealthy: false });
    await expect.poll(() => open).toBe(0);
  });

  it('on close, ends running requests', async () => {
    const { baseUrl } = await upstream((_, response) => {
      response.writeHead(200, sse);
      response.write(frame('1'));
    });
    const way = new UndiciTransport();
    const reply = await way.send(aSending(aCandidate(baseUrl), streaming));
    const rest = failure(all(reply));
    await way.close();
    await rest;
    await failure(way.send(aSending(aCandidate(baseUrl))));
  });
});

describe('the provider of this process', () => {
  const local = aCandidate([], { id: 'local', wire: 'openai-chat', apiKey: undefined });
  const resident = { fingerprint: 'fp' };
  const text = (content: string): AnswerEvent => ({ type: 'text', text: content });
  type Call = { wire: string; request: BackendRequest; signal: AbortSignal };
  /** A model in this process that records its calls. */
  function backend(answer: (call: Call) => AnswerBatches | Promise<AnswerBatches>) {
    const calls: Call[] = [];
    const answerCall = async (call: Call) => {
      calls.push(call);
      return { events: await answer(call), resident };
    };
    const made: Backend = {
      answer: (wire, request, signal) => answerCall({ wire, request, signal }),
      embed: async (request) => ({ embedded: request.body }),
    };
    return { made, calls };
  }
  async function* batches(...given: readonly AnswerEvent[][]): AnswerBatches {
    yield* given;
  }
  async function events(reply: UpstreamReply): Promise<AnswerEvent[]> {
    const found: AnswerEvent[] = [];
    if (reply.local) for await (const batch of reply.local.events) found.push(...batch);
    return found;
  }
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const bodyOf = (path: string, value: object) => ({ path, headers: {}, text: JSON.stringify(value) });

  it('answers a function call with events', async () => {
    const { made, calls } = backend(() => batches([text('a'), text('b')], [text('c')]));
    const way = transport({ local: made });
    const reply = await way.send(aSending(local, { ...streaming, traceparent, client: 'account:1' }));
    expect([reply.status, reply.local?.resident]).toEqual([200, resident]);
    expect(await events(reply)).toEqual(['a', 'b', 'c'].map(text));
    const completion = bodyOf('/completions', { prompt: 'x' });
    // What was read already is not read again.
    const value = { prompt: 'read' };
    await way.send(aSending(local, { body: completion }));
    await way.send(aSending(local, { body: { ...completion, value } }));
    expect(calls.map(({ wire, request }) => [wire, request])).toEqual([
      ['chat', { body: { model: 'a-model-1' }, stream: true, traceparent, client: 'account:1' }],
      ['completions', { body: { prompt: 'x' }, stream: false, traceparent: undefined }],
      ['completions', { body: value, stream: false, traceparent: undefined }],
    ]);
    const embedded = await way.send(aSending(local, { body: bodyOf('/embeddings', { input: 'x' }) }));
    expect(JSON.parse(await embedded.text())).toEqual({ embedded: { input: 'x' } });
  });

  it('fails like any other', async () => {
    const broken = transport({
      local: backend(() => Promise.reject(new Error('sk-secret'))).made,
    });
    const thrown = await failure(broken.send(aSending(local)));
    expect(summary(thrown)).toEqual(failed);
    expect(thrown.error.message).not.toContain('sk-secret');
    const busy = new HttpError(429, 'queue_full', 'The queue is full.', { headers: { 'retry-after': '1' } });
    const full = transport({ local: backend(() => Promise.reject(busy)).made });
    expect(await failure(full.send(aSending(local)))).toMatchObject({
      isRetryable: true,
      retryAfterMs: 1000,
    });
    const wrong = new HttpError(400, 'invalid_value', 'messages: must not be empty.', { param: 'messages' });
    const refusing = transport({ local: backend(() => Promise.reject(wrong)).made });
    expect((await failure(refusing.send(aSending(local)))).error).toMatchObject({
      status: 400,
      param: 'messages',
    });
    async function* half(error: Error): AnswerBatches {
      yield [text('a')];
      throw error;
    }
    const lost = transport({ local: backend(() => half(new Error('broken'))).made });
    expect(summary(await failure(events(await lost.send(aSending(local, streaming)))))).toEqual(failed);
    expect(summary(await failure(transport().send(aSending(local))))).toEqual({
      ...failed,
      isRetryable: false,
      isUnhealthy: false,
    });
  });

  it.each([
    { status: 429, code: 'queue_full', retryAfter: '1', shown: 429 },
    { status: 503, code: 'device_lost', retryAfter: '1', shown: 502 },
    { status: 400, code: 'constraint_failed', shown: 400 },
    // The caller's own doing, and no provider that is late.
    { status: 408, code: 'reader_stalled', shown: 400 },
  ])('a refusal with $status means the same after the first event', async (refused) => {
    const { status, code, retryAfter, shown } = refused;
    const headers = retryAfter === undefined ? {} : { 'retry-after': retryAfter };
    const refusal = new HttpError(status, code, 'Not now.', { headers });
    async function* begun(): AnswerBatches {
      yield [text('a')];
      throw refusal;
    }
    const asked = async (answer: () => AnswerBatches | Promise<AnswerBatches>) =>
      await events(await transport({ local: backend(answer).made }).send(aSending(local, streaming)));
    for (const answer of [() => Promise.reject(refusal), begun])
      expect(await failure(asked(answer))).toMatchObject({
        error: { status: shown, message: expect.stringContaining('Not now.') as string },
        isRetryable: retryAfter !== undefined,
        isUnhealthy: status === 503,
        ...(retryAfter === undefined ? {} : { retryAfterMs: 1000 }),
      });
  });

  it('obeys the time limits', async () => {
    const never = () => new Promise<AnswerBatches>(() => undefined);
    async function* stuck({ signal }: Call): AnswerBatches {
      yield [text('a')];
      await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    }
    const limits = { bufferedMs: 50, streamIdleMs: 50 };
    const silent = transport({ limits, local: backend(never).made });
    expect(summary(await failure(silent.send(aSending(local))))).toMatchObject({ status: 504 });
    const { made, calls } = backend(stuck);
    const reply = await transport({ limits, local: made }).send(aSending(local, streaming));
    expect(summary(await failure(events(reply)))).toEqual(late);
    expect(calls[0]?.signal.aborted).toBe(true);
  });

  it('notices an abort, and does not run ahead of its reader', async () => {
    let pulled = 0;
    let ended = 0;
    async function* endless(): AnswerBatches {
      try {
        for (;;) {
          pulled += 1;
          yield [text('x')];
        }
      } finally {
        ended += 1;
      }
    }
    const { made, calls } = backend(endless);
    const give = new AbortController();
    const way = transport({ local: made });
    const reply = await way.send(aSending(local, { ...streaming, signal: give.signal }));
    await reply.local?.events.next();
    expect(pulled).toBe(1);
    give.abort(new Error('gone'));
    await expect(reply.local?.events.next()).rejects.toThrow('gone');
    await expect.poll(() => [ended, calls[0]?.signal.aborted]).toEqual([1, true]);
    // Also when no more is requested.
    (await way.send(aSending(local, streaming))).cut();
    expect(calls[1]?.signal.aborted).toBe(true);
    // Before there is an answer, too.
    const early = new AbortController();
    const never = transport({ local: backend(() => new Promise<AnswerBatches>(() => undefined)).made });
    const sent = never.send(aSending(local, { signal: early.signal }));
    early.abort(new Error('enough'));
    await expect(sent).rejects.toThrow('enough');
  });
});
