/** Pages of other origins: which may call which routes (`--allowed-origin`, `OLLAMA_ORIGINS`). */
import { describe, expect, test } from 'vitest';
import { createApp } from '../../src/http/app.ts';
import { Cors, exposedHeaders } from '../../src/http/cors.ts';
import { hostGuard } from '../../src/http/host-guard.ts';
import { listen } from '../../src/http/listen.ts';
import { Access } from '../../src/planes/access.ts';
import { EngineError } from '../../src/engine/types.ts';
import { startScriptedHost } from '../support/host.ts';
import { sendRaw } from '../support/raw-http.ts';
import { scriptedServers } from '../support/serve.ts';

const serve = scriptedServers();
const allowed = 'https://app.example.com';
const foreign = 'https://evil.example';
const serveAllowing = (...origins: string[]) =>
  serve({}, 'ready', undefined, [], { allowedOrigins: origins });
const preflightHeaders = (origin: string) => ({
  origin,
  'access-control-request-method': 'POST',
  'access-control-request-headers': 'authorization,content-type,x-stainless-os',
});
const corsOf = ({ headers }: Response) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control')));
/** Response headers that every page may read, or that belong to the connection or to the browser alone. */
const unexposed = new Set(
  'cache-control content-length content-type date connection keep-alive transfer-encoding vary x-content-type-options'.split(
    ' ',
  ),
);

type Host = Awaited<ReturnType<typeof serveAllowing>>;
const routesOf = ({ planes }: Host, isPublic: boolean) =>
  planes
    .filter((plane) => (plane.isPublicWire ?? false) === isPublic)
    .flatMap(({ routes }) => routes)
    .map(({ method, path }) => ({ method, path: path.replaceAll(/\{\w+\}/g, 'x') }));

describe('an allowed origin', () => {
  test('gets an answer to the preflight of every route of the public wires, and may read every response', async () => {
    const host = await serveAllowing(allowed, 'http://localhost:*');
    const routes = routesOf(host, true);
    const paths = routes.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining([
        '/v1/chat/completions',
        '/v1/messages',
        '/api/chat',
        '/completion',
        '/health',
        '/',
      ]),
    );
    for (const { method, path } of routes) {
      const preflight = await host.get(path, { method: 'OPTIONS', headers: preflightHeaders(allowed) });
      const { 'access-control-allow-methods': methods, ...others } = corsOf(preflight);
      expect(others, path).toEqual({
        'access-control-allow-origin': allowed,
        'access-control-allow-headers': 'authorization,content-type,x-stainless-os',
        'access-control-expose-headers': exposedHeaders.join(', '),
        'access-control-max-age': '7200',
      });
      expect([preflight.status, methods?.split(', ')], path).toEqual([
        204,
        expect.arrayContaining([method]) as unknown,
      ]);
      const headers = { origin: allowed, 'content-type': 'application/json' };
      const body = method === 'POST' || method === 'PUT' ? { body: '{}' } : {};
      const response = await host.get(path, { method, headers, ...body });
      await response.body?.cancel();
      expect(corsOf(response)['access-control-allow-origin'], path).toBe(allowed);
      expect(response.headers.get('vary'), path).toBe('origin');
      const hidden = [...response.headers.keys()].filter(
        (name) =>
          !unexposed.has(name) && !name.startsWith('access-control') && !exposedHeaders.includes(name),
      );
      expect(hidden, path).toEqual([]);
    }
    expect(host.refusedOrigins).toEqual([]);
  });

  test('reads streams, and errors of every status', async () => {
    const error = new EngineError('queue_full', 'The queue is full.');
    const host = await serveAllowing(allowed);
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], stream: true });
    const send = (path: string, init: RequestInit = {}) =>
      host.get(path, { headers: { origin: allowed, 'content-type': 'application/json' }, ...init });
    const statuses: number[] = [];
    const readable = async (response: Response) => {
      await response.body?.cancel();
      statuses.push(response.status);
      expect(corsOf(response)['access-control-allow-origin'], String(response.status)).toBe(allowed);
    };
    const chat = { method: 'POST', body };
    const stream = await send('/v1/chat/completions', chat);
    expect(stream.headers.get('content-type')).toContain('text/event-stream');
    await readable(stream);
    await readable(await send('/v1/absent'));
    await readable(await send('/v1/chat/completions', { method: 'PATCH' }));
    await readable(await send('/v1/chat/completions', { method: 'POST', body: '{' }));
    await readable(await send('/v1/chat/completions', { ...chat, headers: { origin: allowed } }));
    host.engine.script = { fail: { after: 0, error } };
    await readable(await send('/v1/chat/completions', chat));
    host.engine.script = { fail: { after: 0, error: new Error('a fault') } };
    await readable(await send('/v1/chat/completions', chat));
    expect(statuses).toEqual([200, 404, 405, 400, 415, 429, 500]);
    const foreignHost = `GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nOrigin: ${allowed}\r\n\r\n`;
    expect(await sendRaw(host.port, foreignHost)).toMatch(
      /^HTTP\/1\.1 403 [^]*access-control-allow-origin: https:\/\/app\.example\.com\r\n/i,
    );
  });

  test('reads a 401, and its preflight, which carries no credentials, needs none', async () => {
    const { planes } = await serve();
    const cors = new Cors({ allowedOrigins: [allowed], planes });
    const access = new Access({ bind: 'lan', bearerHash: '00', operatorHash: undefined });
    const stopSignal = new AbortController().signal;
    const app = createApp({ planes, access, stopSignal, onFault: () => undefined, cors });
    const address = { host: '127.0.0.1', port: 0 };
    const listener = await listen(app, hostGuard('127.0.0.1', []), address, { cors });
    const url = `http://127.0.0.1:${listener.port}/v1/models`;
    const preflight = await fetch(url, { method: 'OPTIONS', headers: preflightHeaders(allowed) });
    const refused = await fetch(url, { headers: { origin: allowed } });
    expect([preflight.status, refused.status]).toEqual([204, 401]);
    expect(corsOf(refused)['access-control-allow-origin']).toBe(allowed);
    expect(exposedHeaders).toEqual(expect.arrayContaining(['www-authenticate']));
    expect(refused.headers.get('www-authenticate')).toBe('Bearer');
    listener.destroyConnections();
    await listener.close();
  });

  test('may send what needs no preflight, and reach the host from a public network', async () => {
    const host = await serveAllowing(allowed);
    const simple = {
      method: 'POST',
      body: '{"model":"scripted","stream":false}',
      headers: { origin: allowed },
    };
    expect((await host.get('/api/generate', simple)).status).toBe(200);
    const other = await host.get('/api/generate', { ...simple, headers: { origin: foreign } });
    expect([other.status, await other.text()]).toEqual([
      403,
      expect.stringContaining(`--allowed-origin ${foreign}`) as unknown,
    ]);
    const headers = { ...preflightHeaders(allowed), 'access-control-request-private-network': 'true' };
    const preflight = await host.get('/api/chat', { method: 'OPTIONS', headers });
    expect(corsOf(preflight)['access-control-allow-private-network']).toBe('true');
  });

  test('* allows every page, without its cookies', async () => {
    const host = await serveAllowing('*');
    const response = await host.get('/v1/models', { headers: { origin: foreign } });
    expect(corsOf(response)).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(corsOf(response)).not.toHaveProperty('access-control-allow-credentials');
  });
});

describe('what stays closed', () => {
  test('every other route, whatever the flag says', async () => {
    for (const origin of [allowed, '*']) {
      const host = await serveAllowing(origin);
      const routes = routesOf(host, false);
      expect(routes.map(({ path }) => path)).toEqual(
        expect.arrayContaining(['/host/v1/info', '/lab/v1/graph', '/openapi.json']),
      );
      for (const { method, path } of routes) {
        const preflight = await host.get(path, { method: 'OPTIONS', headers: preflightHeaders(allowed) });
        const response = await host.get(path, { method, headers: { origin: allowed } });
        await response.body?.cancel();
        expect([preflight.status, corsOf(preflight), corsOf(response)], path).toEqual([405, {}, {}]);
      }
    }
  });

  test('every route to an origin that is not allowed; its refusal names the flag, and the log does so once', async () => {
    for (const host of [await serve(), await serveAllowing(allowed)]) {
      for (const { method, path } of routesOf(host, true)) {
        const preflight = await host.get(path, { method: 'OPTIONS', headers: preflightHeaders(foreign) });
        expect([preflight.status, await preflight.text()], path).toEqual([
          403,
          expect.stringContaining(`start the host with --allowed-origin ${foreign}`) as unknown,
        ]);
        const response = await host.get(path, { method, headers: { origin: foreign } });
        await response.body?.cancel();
        expect([corsOf(preflight), corsOf(response)], path).toEqual([{}, {}]);
      }
      expect(host.refusedOrigins).toEqual([expect.stringContaining(`--allowed-origin ${foreign}`)]);
      for (let at = 0; at < 40; at++)
        await host.get('/v1/models', { method: 'OPTIONS', headers: preflightHeaders(`http://a${at}`) });
      expect(host.refusedOrigins).toHaveLength(16);
    }
  });

  test('a request without Origin, or without the method that a preflight asks about, is none', async () => {
    const host = await serveAllowing(allowed);
    expect((await host.get('/v1/models', { method: 'OPTIONS' })).status).toBe(405);
    expect((await host.get('/v1/models', { method: 'OPTIONS', headers: { origin: foreign } })).status).toBe(
      405,
    );
    const plain = await host.get('/v1/models');
    expect([plain.status, corsOf(plain), plain.headers.get('vary')]).toEqual([200, {}, 'origin']);
  });
});

describe('the host as a process', () => {
  const preflightAt = (url: string, origin: string) =>
    fetch(`${url}/api/chat`, { method: 'OPTIONS', headers: preflightHeaders(origin) });

  test('OLLAMA_ORIGINS is read where the flag is absent, and its control socket allows no origin', async () => {
    const host = startScriptedHost(
      ['--port', '0', '--control-port', '0'],
      {},
      {
        OLLAMA_ORIGINS: '"chrome-extension://*, http://localhost:*"',
      },
    );
    const url = await host.url();
    const [, control] = await host.waitFor('stdout', /control at (http:\S+)\)/);
    for (const [origin, status] of [
      ['chrome-extension://abc', 204],
      ['http://localhost:3000', 204],
      ['http://localhost', 204],
      ['http://127.0.0.1:3000', 403],
      ['app://-', 403],
    ] as const)
      expect((await preflightAt(url, origin)).status, origin).toBe(status);
    const health = await fetch(`${control}/health`, { headers: { origin: 'http://localhost:3000' } });
    expect(corsOf(health)).toEqual({});
    expect(host.output.stderr).toContain('OLLAMA_ORIGINS lets pages of these origins call the host');
    await host.waitFor('stderr', /'app:\/\/-' may not use this host; .*--allowed-origin app:\/\/-/);
    await host.end();

    const flagged = startScriptedHost(
      ['--port', '0', '--allowed-origin', allowed],
      {},
      {
        OLLAMA_ORIGINS: 'http://localhost:*',
      },
    );
    const other = await flagged.url();
    expect((await preflightAt(other, allowed)).status).toBe(204);
    expect((await preflightAt(other, 'http://localhost:1')).status).toBe(403);
    await flagged.end();
  });

  test('refuses * beyond loopback, and every bad origin at once, each by its source', async () => {
    const wide = startScriptedHost(['--port', '0', '--host', '0.0.0.0', '--allowed-origin', '*']);
    expect((await wide.exit).code).toBe(2);
    expect(wide.output.stderr).toContain('--allowed-origin: "*" is refused with --host 0.0.0.0');
    const bad = startScriptedHost(
      ['--port', '0', '--host', '0.0.0.0'],
      {},
      {
        OLLAMA_ORIGINS: 'example.com,https://*,https://x.example/',
      },
    );
    expect((await bad.exit).code).toBe(2);
    for (const fault of [
      'OLLAMA_ORIGINS: "example.com": expected an origin such as',
      'OLLAMA_ORIGINS: "https://*" is refused with --host 0.0.0.0',
      'OLLAMA_ORIGINS: "https://x.example/": an origin ends with its host and port',
    ])
      expect(bad.output.stderr).toContain(fault);
  });
});
