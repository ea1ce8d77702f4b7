/**
 * Every response of a host and of a gateway has a request id and the error format of its path, whatever was sent.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createHttpServer } from '../../src/http/server.ts';
import { bindServer } from '../../src/http/listening.ts';
import { gatewayWorld } from '../support/gateway/world.ts';
import { readRaw, sendRaw } from '../support/raw-http.ts';
import { serveScripted } from '../support/serve.ts';

let host: Awaited<ReturnType<typeof serveScripted>>;
let gateway: Awaited<ReturnType<typeof gatewayWorld>>;
beforeAll(async () => {
  host = await serveScripted();
  gateway = await gatewayWorld();
});
afterAll(async () => {
  await host.close();
  await gateway.close();
});

const head = (line: string, ...fields: string[]) => `${[line, ...fields].join('\r\n')}\r\n\r\n`;
const local = 'Host: localhost';

/** Raw requests with the status of their response. */
const oddities: readonly (readonly [name: string, bytes: string, status: number | readonly number[]])[] = [
  ['a port beyond 65535', head('GET /health HTTP/1.1', 'Host: localhost:99999'), 400],
  ['OPTIONS *', head('OPTIONS * HTTP/1.1', local), 400],
  ['a target that is no path', head('GET health HTTP/1.1', local), 400],
  ['a backslash in the path', head('GET /v1\\models HTTP/1.1', local), 400],
  [
    'an absolute target that is no URL',
    head('GET http://localhost:99999/health HTTP/1.1', local),
    [400, 403],
  ],
  ['an unknown method', head('FOO /health HTTP/1.1', local), 400],
  ['a method that nothing takes', head('PROPFIND /health HTTP/1.1', local, 'Connection: close'), [404, 405]],
  ['TRACE', head('TRACE /health HTTP/1.1', local, 'Connection: close'), [404, 405]],
  ['a path that is not there', head('GET /nowhere HTTP/1.1', local, 'Connection: close'), 404],
  ['a broken escape', head('GET /v1/models/%zz HTTP/1.1', local, 'Connection: close'), [400, 401, 404]],
  ['two slashes', head('GET //health HTTP/1.1', local, 'Connection: close'), 404],
  ['a header without a colon', head('GET /health HTTP/1.1', local, 'nonsense'), 400],
  [
    'a header larger than all others',
    head('GET /health HTTP/1.1', local, `X-Big: ${'x'.repeat(40_000)}`),
    431,
  ],
  ['an unknown version', head('GET /health HTTP/9.9', local), 400],
  ['no HTTP', 'SSH-2.0-OpenSSH\r\n\r\n', 400],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['an expectation', head('GET /health HTTP/1.1', local, 'Expect: wonders'), 417],
  ['CONNECT', head('CONNECT example.com:443 HTTP/1.1', 'Host: example.com:443'), 405],
  ['an upgrade', head('GET /nowhere HTTP/1.1', local, 'Connection: Upgrade', 'Upgrade: websocket'), 404],
  [
    'a chunk without a length',
    `${head('POST /v1/chat/completions HTTP/1.1', local, 'Content-Type: application/json', 'Transfer-Encoding: chunked')}zz\r\n`,
    [400, 401],
  ],
];

describe.each(['host', 'gateway'] as const)('the %s answers with an id and an error', (which) => {
  const port = () => (which === 'host' ? host.port : Number(new URL(gateway.url).port));

  test.each(oddities)('%s', async (name, bytes, status) => {
    // An unsupported upgrade leaves the connection open.
    const closing = name === 'an upgrade' ? bytes.replace('Upgrade\r\n', 'Upgrade, close\r\n') : bytes;
    const { headers, body, ...answer } = readRaw(await sendRaw(port(), closing));
    expect([status].flat()).toContain(answer.status);
    expect(headers.get('x-request-id')).toMatch(/^req_[0-9a-f]+$/);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-type')).toContain('application/json');
    expect(JSON.parse(body)).toMatchObject({ error: { message: expect.any(String) as string } });
  });

  test('in the format of the requested path, even where the body cannot be read', async () => {
    const bytes = head(
      'POST /v1/messages HTTP/1.1',
      local,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
    );
    const { status, headers, body } = readRaw(await sendRaw(port(), `${bytes}zz\r\n`));
    expect([400, 401]).toContain(status);
    expect(headers.get('x-request-id')).toMatch(/^req_/);
    if (status === 400)
      expect(JSON.parse(body)).toMatchObject({ type: 'error', request_id: headers.get('x-request-id') });
  });

  test.each(['/v1/messages', '/v1/messages/batches'])('refusals of %s in its format', async (path) => {
    const { status, headers, body } = readRaw(
      await sendRaw(port(), head(`DELETE ${path} HTTP/1.1`, local, 'Connection: close')),
    );
    expect([404, 405]).toContain(status);
    expect(JSON.parse(body)).toMatchObject({ type: 'error', request_id: headers.get('x-request-id') });
  });
});

test('a request that does not arrive in time gets a response with an id and an error', async () => {
  const server = createHttpServer({
    headersTimeout: 50,
    requestTimeout: 50,
    connectionsCheckingInterval: 20,
    serve: (_, outgoing) => void outgoing.end(),
    writeRefusal: ({ code }) => ({ headers: { 'x-request-id': 'req_1' }, body: JSON.stringify({ code }) }),
  });
  const open = await bindServer(server, { host: '127.0.0.1', port: 0 });
  const { status, headers, body } = readRaw(await sendRaw(open.port, 'GET /health HTTP/1.1\r\nHost: loc'));
  expect([status, headers.get('x-request-id'), body]).toEqual([408, 'req_1', '{"code":"request_timeout"}']);
  await open.close();
});

test('invalid data after a request does not get into the response in progress', async () => {
  const server = createHttpServer({
    serve: (_, outgoing) => void outgoing.write('one '),
    writeRefusal: ({ code }) => ({ headers: {}, body: code }),
  });
  const open = await bindServer(server, { host: '127.0.0.1', port: 0 });
  const received = await sendRaw(open.port, `${head('GET / HTTP/1.1', local)}no HTTP\r\n\r\n`).catch(
    () => '',
  );
  expect(received).not.toContain('bad_request');
  await open.close();
});
