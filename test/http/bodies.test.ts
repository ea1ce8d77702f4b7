import { request } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { loopbackAccess } from '../../src/planes/access.ts';
import { createApp } from '../../src/http/app.ts';
import { hostError } from '../../src/planes/error-schema.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { openapiDocument } from '../../src/http/openapi.ts';
import { defineRoute, type Plane } from '../../src/http/route.ts';

const body = z.object({ a: z.int().optional() }, { error: 'expected an object' }).meta({ id: 'TestBody' });
const echoed = z.object({ got: z.unknown() }).meta({ id: 'TestEcho' });
const answers = { 200: { description: 'Echo.', content: { 'application/json': echoed } } };
const place = (path: string, method: 'POST' | 'DELETE' | 'HEAD' | 'GET' = 'POST') => ({
  method,
  path,
  operationId: `${method}${path.replaceAll('/', '_')}`,
  summary: 'For the test',
  responses: answers,
});
const echo = ({ body: got }: { body: unknown }) => Response.json({ got });
const plane: Plane = {
  name: 'test',
  summary: 'For the test.',
  prefixes: ['/one', '/two/deep'],
  envelope: ({ code }) => ({ mine: code }),
  errorSchema: hostError,
  routes: [
    defineRoute({ ...place('/one/strict'), body, handle: echo }),
    defineRoute({ ...place('/one/loose'), body, acceptsLooseContentType: true, handle: echo }),
    defineRoute({
      ...place('/one/optional'),
      body,
      acceptsLooseContentType: true,
      isBodyOptional: true,
      handle: echo,
    }),
    defineRoute({ ...place('/one/thing', 'DELETE'), body, acceptsLooseContentType: true, handle: echo }),
    defineRoute({
      ...place('/one/thing', 'GET'),
      handle: () => new Response('text', { headers: { x: 'y' } }),
    }),
    defineRoute({ ...place('/two/deep', 'HEAD'), handle: () => new Response(null, { headers: { x: 'z' } }) }),
    defineRoute({
      ...place('/two/deep/raw'),
      rawBody: { limitBytes: 100_000 },
      async handle({ bytes }) {
        const sizes: number[] = [];
        for await (const part of bytes) sizes.push(part.byteLength);
        return Response.json({ got: sizes.reduce((sum, size) => sum + size, 0) });
      },
    }),
  ],
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(planes: readonly Plane[] = [plane]) {
  const faults: unknown[] = [];
  const stopping = new AbortController().signal;
  const app = createApp({
    planes,
    access: loopbackAccess,
    stopSignal: stopping,
    onFault: (_, error) => faults.push(error),
  });
  const listener = await listen(app, hostGuard('127.0.0.1', []), { host: '127.0.0.1', port: 0 });
  closing.push(async () => {
    listener.destroyConnections();
    await listener.close();
  });
  const url = `http://127.0.0.1:${listener.port}`;
  /** Sends exactly these headers, which `fetch` would add to. */
  const send = (
    path: string,
    content: string | Uint8Array,
    headers: Readonly<Record<string, string>> = {},
    method = 'POST',
  ) =>
    new Promise<{ status: number; headers: Readonly<Record<string, unknown>>; text: string }>(
      (resolve, reject) => {
        const call = request(
          url + path,
          { method, headers: { 'content-length': Buffer.byteLength(content), ...headers } },
          (response) => {
            let text = '';
            response.setEncoding('utf8').on('data', (part: string) => {
              text += part;
            });
            response.on('end', () =>
              resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
            );
          },
        );
        call.on('error', reject);
        call.end(content);
      },
    );
  return { url, send, faults };
}

const form = 'application/x-www-form-urlencoded';

test('an idle connection is kept longer than clients keep theirs, so that none is closed during a request', async () => {
  const { url } = await serve();
  const { headers } = await fetch(`${url}/one/thing`);
  expect(headers.get('keep-alive')).toBe('timeout=65');
});
const foreign: readonly Readonly<Record<string, string>>[] = [
  { origin: 'http://evil.com' },
  { origin: 'null' },
  { origin: 'http://127.0.0.1:1' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
];

describe('a route that accepts JSON with other content types', () => {
  test.each([undefined, form, `${form}; charset=utf-8`, 'text/plain;charset=UTF-8', 'application/json'])(
    'takes it as %s',
    async (type) => {
      const { send } = await serve();
      const headers = type === undefined ? {} : { 'content-type': type };
      for (const path of ['/one/loose', '/one/optional']) {
        const { status, text } = await send(path, '{"a":7}', headers);
        expect([path, status, text]).toEqual([path, 200, '{"got":{"a":7}}']);
      }
    },
  );

  test('but not from a page of another origin, whatever the type', async () => {
    const { send } = await serve();
    for (const headers of foreign) {
      for (const type of [undefined, form, 'text/plain']) {
        const all = type === undefined ? headers : { ...headers, 'content-type': type };
        for (const path of ['/one/loose', '/one/optional']) {
          const { status, text } = await send(path, '{"a":7}', all);
          expect([status, text]).toEqual([403, '{"mine":"foreign_origin"}']);
        }
        expect((await send('/one/optional', '', all)).status).toBe(403);
      }
    }
  });

  test('a page of the same origin may send it', async () => {
    const { send, url } = await serve();
    const own = { origin: url, 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' };
    expect((await send('/one/loose', '{}', own)).status).toBe(200);
  });

  test('no other type is accepted', async () => {
    const { send } = await serve();
    for (const type of ['multipart/form-data; boundary=x', 'application/xml', 'image/png', 'x'])
      expect((await send('/one/loose', '{}', { 'content-type': type })).status).toBe(415);
    expect((await send('/one/loose', '{}', { 'content-encoding': 'gzip' })).status).toBe(415);
  });

  test('a strict route accepts none of them', async () => {
    const { send } = await serve();
    for (const type of [undefined, form, 'text/plain'])
      expect(
        (await send('/one/strict', '{}', type === undefined ? {} : { 'content-type': type })).status,
      ).toBe(415);
    expect((await send('/one/strict', '{}', { 'content-type': 'application/json' })).status).toBe(200);
  });
});

test('DELETE has a body', async () => {
  const { send } = await serve();
  expect((await send('/one/thing', '{"a":1}', {}, 'DELETE')).text).toBe('{"got":{"a":1}}');
  expect((await send('/one/thing', '{"a":"x"}', {}, 'DELETE')).status).toBe(400);
});

test('HEAD answers like GET without its body, or by itself', async () => {
  const { url } = await serve();
  const head = await fetch(`${url}/one/thing`, { method: 'HEAD' });
  expect([head.status, head.headers.get('x'), await head.text()]).toEqual([200, 'y', '']);
  const alone = await fetch(`${url}/two/deep`, { method: 'HEAD' });
  expect([alone.status, alone.headers.get('x')]).toEqual([200, 'z']);
  const get = await fetch(`${url}/two/deep`);
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'HEAD']);
});

const init = (stream: ReadableStream<Uint8Array>): RequestInit & { duplex: 'half' } => ({
  method: 'POST',
  body: stream,
  duplex: 'half',
});

describe('raw bodies', () => {
  test('are passed unchanged up to their limit, with a length or in chunks', async () => {
    const { send, url } = await serve();
    const bytes = new Uint8Array(100_000).fill(0xff);
    expect((await send('/two/deep/raw', bytes)).text).toBe('{"got":100000}');
    const chunked = (size: number) => {
      const stream = new ReadableStream<Uint8Array>({
        start(controller) {
          for (let at = 0; at < size; at += 1000) controller.enqueue(new Uint8Array(1000));
          controller.close();
        },
      });
      return fetch(`${url}/two/deep/raw`, init(stream));
    };
    expect(await (await chunked(100_000)).json()).toEqual({ got: 100_000 });
    const over = await chunked(101_000);
    expect([over.status, await over.json()]).toEqual([413, { mine: 'body_too_large' }]);
    expect((await send('/two/deep/raw', new Uint8Array(100_001))).status).toBe(413);
    expect((await send('/two/deep/raw', '')).text).toBe('{"got":0}');
  });

  test('not from a page of another origin, and not encoded', async () => {
    const { send } = await serve();
    for (const headers of foreign) expect((await send('/two/deep/raw', 'x', headers)).status).toBe(403);
    expect((await send('/two/deep/raw', 'x', { 'content-encoding': 'br' })).status).toBe(415);
  });
});

test('the envelope is that of the first plane with a prefix of the path', async () => {
  const other: Plane = {
    ...plane,
    name: 'other',
    prefixes: ['/two', '/three'],
    envelope: () => ({ other: true }),
    routes: [],
  };
  const { url } = await serve([plane, other]);
  const at = async (path: string) => await (await fetch(url + path)).json();
  expect(await at('/one')).toEqual({ mine: 'not_found' });
  expect(await at('/two/deep/x')).toEqual({ mine: 'not_found' });
  expect(await at('/two/deeper')).toEqual({ other: true });
  expect(await at('/three')).toEqual({ other: true });
  expect(hostError.safeParse(await at('/onetwo')).success).toBe(true);
});

test('the OpenAPI document tells of raw and loose bodies', () => {
  const document = openapiDocument([plane], '0') as {
    paths: Record<string, Record<string, { requestBody?: { content: object }; responses: object }>>;
  };
  expect(document.paths['/two/deep/raw']?.['post']?.requestBody?.content).toEqual({
    'application/octet-stream': {},
  });
  expect(Object.keys(document.paths['/two/deep/raw']?.['post']?.responses ?? {})).toEqual([
    '200',
    '403',
    '413',
  ]);
  expect(Object.keys(document.paths['/one/loose']?.['post']?.responses ?? {})).toEqual([
    '200',
    '400',
    '403',
    '413',
    '415',
  ]);
});
