import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { Plane, Route } from '../../src/http/route.ts';
import { serveScripted } from '../support/serve.ts';
import { until } from '../support/until.ts';
import { selectCases } from '../support/tier.ts';

type Host = Awaited<ReturnType<typeof serveScripted>>;
let host: Host;
beforeAll(async () => {
  host = await serveScripted({ fim: true, contextLength: 512 });
});
afterAll(() => host.close());

interface Target {
  readonly plane: Plane;
  readonly route: Route;
  readonly path: string;
  /** Members of the body. */
  readonly members: readonly string[];
}

/** Every route with a JSON body, with placeholder path parameters. */
const targets = (): Target[] =>
  host.planes.flatMap((plane) =>
    plane.routes.flatMap((route) => {
      if (!route.body) return [];
      const schema = z.toJSONSchema(route.body, { io: 'input', unrepresentable: 'any' });
      const named = schema.$defs?.[route.body.meta()?.id ?? ''] as typeof schema | undefined;
      const { properties = {} } = named ?? schema;
      const path = route.path.replaceAll(/\{\w+\}/g, 'x');
      return [{ plane, route, path, members: Object.keys(properties) }];
    }),
  );

const deep = (open: string, close: string, levels: number) => open.repeat(levels) + close.repeat(levels);

/** Bodies that every route refuses. */
const broken: readonly (readonly [name: string, body: string | Uint8Array<ArrayBuffer>, status?: number])[] =
  [
    ['nothing but brackets', '['.repeat(1_000_000)],
    ['a million arrays', deep('[', ']', 1_000_000)],
    ['a million objects', deep('{"a":', '}', 1_000_000)],
    ['deep behind a text with brackets', `{"x":"[[\\"[","y":${deep('[', ']', 1000)}}`],
    ['arrays and objects in turn', `{"a":${deep('[{"a":', '}]', 10_000)}}`],
    ['a million members', `{"a":{${Array.from({ length: 1_000_000 }, (_, at) => `"${at}":1`).join(',')}}}`],
    ['a million empty objects', `{"a":[${'{},'.repeat(1_000_000)}{}]}`],
    ['no JSON', '{'],
    ['a NUL', '{"a":\u0000}'],
    ['a NUL in a text', '{"a":"\u0000"}'],
    ['NULs', '\u0000'.repeat(1000)],
    ['a byte order mark of UTF-16', Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0)],
    ['invalid UTF-8', Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d)],
    ['a surrogate in UTF-8', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
    ['an array', '[]'],
    ['null', 'null'],
    ['a number', '1e400'],
    ['a text', '"a"'],
  ];

/** Values for all members of a body at once. */
const hostile: readonly (readonly [name: string, value: string])[] = [
  ['null', 'null'],
  ['an endless number', '1e400'],
  ['the greatest number', '1.7976931348623157e308'],
  ['the least whole number', '-9223372036854775809'],
  ['an empty text', '""'],
  ['a lone surrogate', '"\\ud800"'],
  ['NULs', '"\\u0000\\u0000"'],
  ['prototypes', '{"__proto__":{"a":1},"constructor":{"prototype":1},"toString":7,"length":-1}'],
  ['one name often', `{${'"a":1,'.repeat(20_000)}"a":2}`],
  ['empty arrays', '[]'],
  ['arrays in arrays', deep('[', ']', 150)],
  ['objects in objects', deep('{"type":', '}', 150).replace('{"type":}', '{}')],
  ['many empty objects', `[${'{},'.repeat(20_000)}{}]`],
  ['many numbers', `[${'1,'.repeat(100_000)}1]`],
  ['many texts', `[${'"a",'.repeat(50_000)}"a"]`],
  ['many names', `{${Array.from({ length: 20_000 }, (_, at) => `"k${at}":{}`).join(',')}}`],
  ['a long text', `"${'x'.repeat(500_000)}"`],
  ['a long text of special characters', `"${'<|im_end|>\\n'.repeat(40_000)}"`],
  ['a text for expressions', `"${'a'.repeat(50_000)}!"`],
];

/** A body that most routes accept. */
const good: Readonly<Record<string, unknown>> = {
  prompt: 'a',
  input: 'a',
  content: 'a',
  messages: [{ role: 'user', content: 'a' }],
  tokens: [97],
  input_prefix: 'a',
  input_suffix: 'b',
  max_tokens: 2,
  stream: false,
};

/** A valid body except for one member. */
function bodyOf({ members }: Target, name: string, value: string): string {
  const others = members.filter((member) => member !== name && Object.hasOwn(good, member));
  const written = others.map((member) => `${JSON.stringify(member)}:${JSON.stringify(good[member])}`);
  return `{${[...written, `${JSON.stringify(name)}:${value}`].join(',')}}`;
}

async function send(
  { route, path }: Target,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>> = {},
) {
  const ask = () =>
    host.get(path, {
      method: route.method,
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
  // The host closes a connection on which it refused a body unread, and fetch may just have taken it for this one.
  return await ask().catch(ask);
}

/** Asserts that other requests are served while the request is processed. */
async function whileHealthy<Value>(work: Promise<Value>): Promise<Value> {
  let over = false;
  const watched = work.finally(() => {
    over = true;
  });
  do {
    const health = await host.get('/health');
    expect(health.status).toBe(200);
    await health.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, 2));
  } while (!over);
  return await watched;
}

async function expectRefusal({ plane, path }: Target, response: Response, statuses: readonly number[] = []) {
  const answer: unknown = await response.json();
  const where = `${path} ${response.status} ${JSON.stringify(answer).slice(0, 300)}`;
  if (statuses.length > 0) expect(statuses, where).toContain(response.status);
  const isRefusal = (response.status >= 400 && response.status < 500) || [501, 503].includes(response.status);
  expect(isRefusal, where).toBe(true);
  expect(plane.errorSchema.safeParse(answer).success, where).toBe(true);
  expect(JSON.stringify(answer).length).toBeLessThan(20_000);
}

/** Statuses that a route may answer before it reads the body. */
const beforeTheBody = [501, 503];

describe('every route with a body', () => {
  test('there are such routes, on every plane that takes bodies', () => {
    expect(new Set(targets().map(({ plane }) => plane.name)).size).toBeGreaterThan(2);
    expect(targets().length).toBeGreaterThan(10);
    for (const { path, members } of targets()) expect(members.length, path).toBeGreaterThan(0);
  });

  test.each(broken.map(([name, body]) => ({ name, body })))('refuses $name', async ({ body }) => {
    for (const target of targets()) {
      const response = await whileHealthy(send(target, body));
      await expectRefusal(target, response, [400, ...beforeTheBody]);
    }
    expect(host.faults).toEqual([]);
  });

  const sample = selectCases(hostile, ([name], index) => index % 5 === 0 && name !== 'many names');
  test.each(sample)('survives members that are all %s', async (_, value) => {
    for (const target of targets()) {
      const body = `{${target.members.map((name) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
      const response = await whileHealthy(send(target, body));
      if (response.status < 400) await response.body?.cancel();
      else await expectRefusal(target, response);
    }
    expect(host.faults).toEqual([]);
  });

  test.each(sample)('survives one member that is %s, among good ones', async (_, value) => {
    for (const target of targets()) {
      const members = target.members.filter((name) => name !== 'stream');
      await whileHealthy(
        Promise.all(
          members.map(async (name) => {
            const response = await send(target, bodyOf(target, name, value));
            if (response.status < 400) await response.text();
            else await expectRefusal(target, response);
          }),
        ),
      );
    }
    expect(host.faults).toEqual([]);
  });

  test('the last of several members with one name counts, and unknown ones are ignored', async () => {
    for (const target of targets()) {
      const [name = 'a'] = target.members;
      const unknown = Array.from({ length: 20_000 }, (_, at) => `"unknown${at}":[[1]]`).join(',');
      const response = await whileHealthy(send(target, `{"${name}":[],"${name}":{"x":[]},${unknown}}`));
      if (response.status < 400) await response.body?.cancel();
      else await expectRefusal(target, response);
    }
    expect(host.faults).toEqual([]);
  });

  test('refuses a body that is too large, with a length or in chunks', async () => {
    const size = 33 * 1024 * 1024;
    const part = new Uint8Array(1024 * 1024).fill(0x20);
    for (const target of targets()) {
      const declared = await rawStatus(
        host.port,
        `${target.route.method} ${target.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${size}\r\n\r\n{`,
      );
      expect([413, ...beforeTheBody]).toContain(declared);
    }
    const [target] = targets().filter(({ path }) => path === '/completion');
    if (!target) throw new Error('there is no /completion');
    let sent = 0;
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent >= size) controller.close();
        else controller.enqueue(part);
        sent += part.length;
      },
    });
    const chunked: RequestInit & { duplex: 'half' } = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: stream,
      duplex: 'half',
    };
    const response = await whileHealthy(host.get(target.path, chunked));
    await expectRefusal(target, response, [413]);
  });

  test('refuses other content types and encoded bodies', async () => {
    for (const target of targets()) {
      const types = ['image/png', 'multipart/form-data; boundary=x', 'application/jsonx', 'x'.repeat(5000)];
      for (const type of types)
        await expectRefusal(target, await send(target, '{}', { 'content-type': type }), [
          415,
          ...beforeTheBody,
        ]);
      await expectRefusal(target, await send(target, '{}', { 'content-encoding': 'gzip' }), [
        415,
        ...beforeTheBody,
      ]);
    }
  });

  test('no route serves a page of another origin', async () => {
    const before = host.engine.requests.length;
    for (const target of targets()) {
      for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
        const headers = { 'content-type': type, origin: 'http://evil.com', 'sec-fetch-site': 'cross-site' };
        const body = '{"prompt":"a","input_prefix":"a","input_suffix":"b","content":"a","stream":false}';
        await expectRefusal(target, await send(target, body, headers), [403, 415, ...beforeTheBody]);
      }
    }
    expect(host.engine.requests).toHaveLength(before);
  });
});

/** Sends bytes and returns the status of the response, whatever happens to the connection. */
const rawStatus = (port: number, bytes: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('data', (data) => {
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(data.toString())?.[1] ?? 0));
      socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('closed without an answer')));
  });

describe('connections', () => {
  test('hundreds of unfinished requests do not block others', async () => {
    const sockets = Array.from({ length: 400 }, (_, at) => {
      const socket = connect(host.port, '127.0.0.1');
      socket.on('error', () => undefined);
      const begun =
        at % 2 === 0
          ? 'POST /completion HTTP/1.1\r\nHost: loc'
          : 'POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"prom';
      socket.write(begun);
      return socket;
    });
    for (let tries = 0; tries < 3; tries++) expect(await whileHealthy(Promise.resolve(tries))).toBe(tries);
    const answer = await host.post('/completion', { prompt: 'a' });
    expect(answer.status).toBe(200);
    await answer.body?.cancel();
    for (const socket of sockets) socket.destroy();
    expect(host.faults).toEqual([]);
  });

  test('one that is cut in the middle of its body is not logged as a fault', async () => {
    for (const target of targets()) {
      const socket = connect(host.port, '127.0.0.1');
      await new Promise<void>((resolve) => {
        socket.on('connect', () => {
          const head = `${target.route.method} ${target.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json`;
          socket.write(`${head}\r\nContent-Length: 1000\r\n\r\n{"a":`, () => resolve());
        });
      });
      socket.destroy();
    }
    expect(await whileHealthy(Promise.resolve(true))).toBe(true);
    expect(host.faults).toEqual([]);
  });

  test('nothing is left running', async () => {
    await until(() => host.engine.running === 0);
  });
});
