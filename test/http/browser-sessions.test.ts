import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { PeerScope } from '../../src/agent/shapes/peer-scope.ts';
import { BrowserSessions } from '../../src/http/browser-sessions.ts';
import { Access, type AccessOptions } from '../../src/planes/access.ts';
import { generateSecret, hashSecret } from '../../src/signing/secret.ts';
import { serveScripted } from '../support/serve.ts';

const bearer = generateSecret('bearer');
const hourMs = 3_600_000;

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Answer {
  readonly status: number;
  readonly cookies: readonly string[];
  readonly text: string;
}

/** A host that needs the bearer token for everything, or only where a route is gated; its clock and its peers are the test's. */
async function serve({
  bind = 'lan',
  isTls = false,
}: {
  bind?: AccessOptions['bind'];
  isTls?: boolean;
} = {}) {
  const clock = { ms: 1_000_000 };
  const peers = new Map<string, readonly PeerScope[] | null>();
  const sessions = new BrowserSessions({ name: 'session', isTls, now: () => clock.ms });
  const access = new Access({
    bind,
    bearerHash: hashSecret(bearer),
    operatorHash: undefined,
    sessions,
    findPeer: async (token) => {
      const scope = peers.get(token);
      return scope === undefined ? undefined : { name: 'desk', scope };
    },
  });
  const server = await serveScripted({}, 'ready', undefined, [], { access, sessions });
  closing.push(() => server.close());
  const origin = server.url;
  const { host } = new URL(origin);
  /** Sends exactly these headers, which `fetch` does not let a program set. */
  const send = (method: string, path: string, headers: Record<string, string> = {}) =>
    new Promise<Answer>((resolve, reject) => {
      const sent = request(origin + path, { method, headers }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, cookies: answer.headers['set-cookie'] ?? [], text }),
        );
      });
      sent.on('error', reject).end();
    });
  const signIn = async (headers: Record<string, string> = {}, token = bearer) => {
    const { status, cookies } = await send('POST', '/host/v1/session', {
      authorization: `Bearer ${token}`,
      origin,
      ...headers,
    });
    expect(status).toBe(200);
    return (cookies[0] ?? '').split(';')[0] ?? '';
  };
  /** What a page of the host sends where the browser trusts the connection. */
  const page = (cookie: string) => ({ cookie, 'sec-fetch-site': 'same-origin' });
  const statusOf = async (headers: Record<string, string>, method = 'GET', path = '/host/v1/info') =>
    (await send(method, path, headers)).status;
  return { ...server, origin, host, clock, peers, sessions, send, signIn, page, statusOf };
}

describe('a session of a browser', () => {
  it('is given for the bearer token only, in a cookie that no script can read and that has none of the token', async () => {
    const at = await serve();
    for (const authorization of ['', 'Bearer wrong', `Bearer ${bearer}x`, bearer])
      expect(await at.statusOf({ authorization, origin: at.origin }, 'POST', '/host/v1/session')).toBe(401);
    const headers = { authorization: `Bearer ${bearer}`, origin: at.origin };
    const { cookies, text } = await at.send('POST', '/host/v1/session', headers);
    expect(cookies).toEqual([
      expect.stringMatching(
        new RegExp(`^lathe_session_${at.port}=lathe_session_[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`),
      ),
    ]);
    expect(cookies.join() + text).not.toContain(bearer);
    expect(JSON.parse(text)).toEqual({
      signed_in: true,
      by: 'bearer',
      scope: null,
      expires_at: new Date(at.clock.ms + 12 * hourMs).toISOString(),
    });
  });

  it('opens what its token opens, on a gated route of a loopback host too', async () => {
    for (const bind of ['lan', 'loopback'] as const) {
      const at = await serve({ bind });
      const path = bind === 'lan' ? '/host/v1/info' : '/metrics';
      expect(await at.statusOf({}, 'GET', path)).toBe(401);
      const cookie = await at.signIn();
      expect(await at.statusOf(at.page(cookie), 'GET', path)).toBe(200);
      const { text } = await at.send('GET', '/host/v1/session', at.page(cookie));
      expect(JSON.parse(text)).toMatchObject({ signed_in: true, by: 'bearer', scope: null });
    }
  });

  it("has exactly the scope of a peer's token, and ends when the token is revoked", async () => {
    const at = await serve();
    at.peers.set('desk-token', ['read']);
    const cookie = await at.signIn({}, 'desk-token');
    expect(await at.statusOf(at.page(cookie))).toBe(200);
    expect(await at.statusOf(at.page(cookie), 'DELETE', '/lab/v1/bindings')).toBe(403);
    const { text } = await at.send('GET', '/host/v1/session', at.page(cookie));
    expect(JSON.parse(text)).toMatchObject({ by: 'peer:desk', scope: ['read'] });
    at.peers.delete('desk-token');
    expect(await at.statusOf(at.page(cookie))).toBe(401);
  });

  it('ends 12 hours after its last request, and not before', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    for (let use = 0; use < 3; use++) {
      at.clock.ms += 12 * hourMs - 1;
      expect(await at.statusOf(at.page(cookie))).toBe(200);
    }
    at.clock.ms += 12 * hourMs;
    expect(await at.statusOf(at.page(cookie))).toBe(401);
  });

  it('ends when the user signs out, also for a copy of its cookie, and no other session does', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    const other = await at.signIn();
    const { status, cookies } = await at.send('DELETE', '/host/v1/session', {
      ...at.page(cookie),
      origin: at.origin,
    });
    expect(status).toBe(200);
    expect(cookies.map((one) => one.replace(/;.*Max-Age=0/, ' removed'))).toEqual([
      `lathe_session_${at.port}= removed`,
      `__Host-lathe_session_${at.port}= removed; Secure`,
    ]);
    expect(await at.statusOf(at.page(cookie))).toBe(401);
    expect(await at.statusOf(at.page(other))).toBe(200);
  });

  it('has a new id at each sign-in: one that was planted, or that the browser had before, opens nothing', async () => {
    const at = await serve();
    const planted = `lathe_session_${at.port}=${generateSecret('session')}`;
    const cookie = await at.signIn({ cookie: planted });
    expect(cookie).not.toBe(planted);
    expect(await at.statusOf(at.page(planted))).toBe(401);
    const next = await at.signIn({ cookie });
    expect(next).not.toBe(cookie);
    expect(await at.statusOf(at.page(cookie))).toBe(401);
    // A page of another port planted further cookies of the name.
    expect(await at.statusOf(at.page(`${planted}; ${next}; lathe_session_${at.port}=`))).toBe(200);
  });

  it('of another user, planted beside that of the browser, is not used unawares: signing in again ends both', async () => {
    const at = await serve();
    at.peers.set('desk-token', ['read']);
    const [own, planted] = [await at.signIn(), await at.signIn({}, 'desk-token')];
    for (const both of [`${planted}; ${own}`, `${own}; ${planted}`]) {
      expect(await at.statusOf(at.page(both))).toBe(401);
      const { text } = await at.send('GET', '/host/v1/info', at.page(both));
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'several_sessions' } });
    }
    const next = await at.signIn({ cookie: `${planted}; ${own}` });
    expect(await at.statusOf(at.page(`${planted}; ${next}`))).toBe(200);
    for (const ended of [own, planted]) expect(await at.statusOf(at.page(ended))).toBe(401);
  });

  it('over HTTPS counts only in the cookie that pages of other ports cannot set', async () => {
    const at = await serve();
    const secure = await at.signIn({ host: 'my.box', origin: 'https://my.box' });
    const page = { host: 'my.box', origin: 'https://my.box' };
    expect(await at.statusOf({ ...page, cookie: secure })).toBe(200);
    expect(await at.statusOf({ ...page, cookie: secure.replace('__Host-', '') })).toBe(401);
    const plain = await at.signIn();
    expect(await at.statusOf(at.page(plain))).toBe(200);
    expect(await at.statusOf(at.page(`__Host-${plain}`))).toBe(401);
  });

  it('is for the token that was verified, so that no other text is kept', async () => {
    const at = await serve();
    at.peers.set('desk-token', ['read']);
    for (const key of ['desk-token', bearer]) {
      const headers = { 'x-api-key': key, authorization: 'Bearer any-other-text', origin: at.origin };
      const { status, cookies, text } = await at.send('POST', '/host/v1/session', headers);
      expect([status, cookies]).toEqual([400, []]);
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'several_tokens' } });
    }
  });

  it('is not made from a cookie, so that a copy cannot renew itself', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    const headers = { ...at.page(cookie), origin: at.origin };
    expect(await at.statusOf(headers, 'POST', '/host/v1/session')).toBe(401);
  });

  it('does not replace a token that was sent: a wrong one is refused', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    expect(await at.statusOf({ ...at.page(cookie), authorization: 'Bearer wrong' })).toBe(401);
    expect(await at.statusOf({ ...at.page(cookie), 'x-svc-operator': 'wrong' })).toBe(401);
    // Beyond loopback a key of the gateway may be in this header.
    expect(await at.statusOf({ ...at.page(cookie), 'x-api-key': 'of the gateway' })).toBe(200);
  });
});

describe('a page of another origin', () => {
  const foreign = (port: number) => [
    { 'sec-fetch-site': 'cross-site' },
    // Another port of this machine is the same site, to which a browser sends the cookie.
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-site', origin: `http://127.0.0.1:${port + 1}` },
    { 'sec-fetch-site': 'same-origin', origin: 'http://evil.example' },
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { origin: `http://127.0.0.1:${port + 1}` },
    { origin: `https://127.0.0.1:${port}` },
    // A browser that trusts the connection less names no site: then the request names the page, or is refused.
    { referer: `http://127.0.0.1:${port + 1}/` },
    { referer: 'not an address' },
    {},
  ];

  it('can use the session neither for reads nor for writes, forms and sockets', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    for (const headers of foreign(at.port)) {
      const seen = JSON.stringify(headers);
      for (const [method, path] of [
        ['GET', '/host/v1/info'],
        ['HEAD', '/host/v1/info'],
        ['DELETE', '/lab/v1/bindings'],
        ['POST', '/v1/chat/completions'],
        ['DELETE', '/host/v1/session'],
      ] as const)
        expect([seen, method, path, await at.statusOf({ ...headers, cookie }, method, path)]).toEqual([
          seen,
          method,
          path,
          403,
        ]);
      const type = 'application/x-www-form-urlencoded';
      const form = { ...headers, cookie, 'content-type': type };
      expect([seen, await at.statusOf(form, 'POST', '/lab/v1/parity/run')]).toEqual([seen, 403]);
      const socket = new WebSocket(`ws://${at.host}/v1/responses`, { headers: { ...headers, cookie } });
      const status = await new Promise((resolve) => {
        socket.on('unexpected-response', (_, answer) => resolve(answer.statusCode));
        socket.on('open', () => resolve('open'));
        socket.on('error', () => undefined);
      });
      expect([seen, status]).toEqual([seen, 403]);
    }
    // Nobody signed the session out.
    expect(await at.statusOf(at.page(cookie))).toBe(200);
  });

  it('cannot sign in, not even with the token', async () => {
    const at = await serve();
    // A page of the same address over HTTPS is the host's own, behind a proxy.
    const pages = foreign(at.port).filter(
      ({ origin, 'sec-fetch-site': site }) => site ?? (origin && !origin.startsWith('https:')),
    );
    for (const headers of pages) {
      const sent = { authorization: `Bearer ${bearer}`, ...headers };
      const { status, cookies } = await at.send('POST', '/host/v1/session', sent);
      expect([headers, status, cookies]).toEqual([headers, 403, []]);
    }
  });

  it("that rebinds its name to the host's address reaches nothing", async () => {
    const at = await serve();
    const cookie = await at.signIn();
    for (const host of ['evil.example', `evil.example:${at.port}`])
      expect(await at.statusOf({ ...at.page(cookie), host })).toBe(403);
    // A name that the host answers to, but that is not the one of the session.
    for (const host of [`localhost:${at.port}`, `127.0.0.1:${at.port + 1}`, 'my.box'])
      expect([host, await at.statusOf({ ...at.page(cookie), host })]).toEqual([host, 401]);
  });
});

describe('a page of the host', () => {
  it('is recognized by each thing that browsers tell, and opens sockets', async () => {
    const at = await serve();
    const cookie = await at.signIn();
    for (const headers of [
      { 'sec-fetch-site': 'same-origin' },
      { 'sec-fetch-site': 'none' },
      { origin: at.origin },
      { referer: `${at.origin}/console/lab` },
    ] as Record<string, string>[])
      expect([headers, await at.statusOf({ ...headers, cookie })]).toEqual([headers, 200]);
    // Without a site and with `Origin`, as a write over HTTP on a name that the browser does not trust.
    expect(
      await at.statusOf({ cookie, origin: at.origin }, 'DELETE', '/lab/v1/bindings'),
      'the lab is not there',
    ).toBe(503);
    // Nobody enters the address of a write.
    expect(await at.statusOf({ cookie, 'sec-fetch-site': 'none' }, 'DELETE', '/lab/v1/bindings')).toBe(403);
    const socket = new WebSocket(`ws://${at.host}/v1/responses`, { headers: { cookie, origin: at.origin } });
    await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject));
    socket.close();
  });

  it("has a cookie of its own for each host on a machine, and does not accept another's", async () => {
    const [first, second] = [await serve(), await serve()];
    const [one, two] = [await first.signIn(), await second.signIn()];
    expect(one.split('=')[0]).not.toBe(two.split('=')[0]);
    const both = `${one}; ${two}`;
    expect(await first.statusOf(first.page(both))).toBe(200);
    expect(await second.statusOf(second.page(both))).toBe(200);
    expect(await second.statusOf(second.page(one))).toBe(401);
    // The id of another host under the right name.
    const renamed = `${two.split('=')[0]}=${one.split('=')[1]}`;
    expect(await second.statusOf(second.page(renamed))).toBe(401);
  });

  it('behind a proxy with HTTPS has a cookie for HTTPS only', async () => {
    const at = await serve();
    const signIn = (headers: Record<string, string>) =>
      at.send('POST', '/host/v1/session', { authorization: `Bearer ${bearer}`, ...headers });
    for (const headers of [
      { host: 'my.box', origin: 'https://my.box' },
      { host: 'my.box:443', origin: 'https://my.box' },
      { host: 'my.box', 'x-forwarded-proto': 'https' },
    ] as { host: string; origin?: string }[]) {
      const { status, cookies } = await signIn(headers);
      expect([headers, status]).toEqual([headers, 200]);
      expect(cookies[0]).toMatch(/^__Host-lathe_session_\w+=.*; SameSite=Strict; Secure$/);
      const cookie = (cookies[0] ?? '').split(';')[0] ?? '';
      const { host } = headers;
      expect(await at.statusOf({ cookie, host, origin: 'https://my.box' })).toBe(200);
      expect(await at.statusOf({ cookie, host, origin: 'http://my.box' })).toBe(403);
    }
    expect((await signIn({ host: 'my.box', origin: 'https://my.box:444' })).status).toBe(403);
  });
});

it('the number of sessions of a token is limited: the one that was used least recently ends', async () => {
  const at = await serve();
  const [first, second] = [await at.signIn(), await at.signIn()];
  expect(await at.statusOf(at.page(first))).toBe(200);
  for (let more = 0; more < 63; more++)
    at.sessions.start(new Headers({ host: at.host, origin: at.origin }), bearer);
  expect(await at.statusOf(at.page(second))).toBe(401);
  expect(await at.statusOf(at.page(first))).toBe(200);
});
