import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { Access } from '../../src/planes/access.ts';
import { Pages } from '../../src/planes/pages/pages.ts';
import { Problem } from '../../src/planes/problem.ts';
import { newSecret, secretHash } from '../../src/signing/secret.ts';

const files = new Map([
  ['/index.html', '<html><meta name="csp-nonce" content=""><div id="root"></div></html>'],
  ['/demo/index.html', '<html>demo</html>'],
  ['/assets/console-1a.js', 'console.log(1);'.repeat(50)],
  ['/engine/lathe.js', 'export {};'],
  ['/models/tiny.gguf', '0123456789'],
]);
const open = () =>
  new Pages({
    paths: new Set(files.keys()),
    read: async (path) => new TextEncoder().encode(files.get(path)),
  });

const token = newSecret('bearer');
const accessOf = (bind: 'loopback' | 'lan') =>
  new Access({ bind, bearerHash: secretHash(token), operatorHash: undefined });

interface Asking {
  readonly pages?: Pages;
  readonly bind?: 'loopback' | 'lan';
  readonly method?: string;
  readonly headers?: Record<string, string>;
}

/** As a browser that follows a link asks, or (`accept` given) anybody else. */
async function get(
  path: string,
  { pages = open(), bind = 'loopback', method = 'GET', headers = {} }: Asking = {},
) {
  const request = new Request(`http://host:8080${path}`, {
    method,
    headers: { accept: 'text/html', ...headers },
  });
  const asked = { method, path, headers: request.headers, remoteAddress: '10.0.0.7' };
  return await pages.answer(request, () => accessOf(bind).enter(asked));
}
const statusOf = async (answer: ReturnType<typeof get>) => (await answer)?.status;

describe('pages of the host', () => {
  it('stand at / for browsers alone: programs find there what they look for', async () => {
    expect(await statusOf(get('/'))).toBe(200);
    expect(await get('/', { headers: { accept: '*/*' } })).toBeUndefined();
    expect(await get('/', { method: 'POST' })).toBeUndefined();
  });

  it('are one file for all views, each time with a nonce of its own', async () => {
    const nonces = new Set<string>();
    for (const path of ['/', '/console', '/console/lab/kernels', '/console/runs/r.1']) {
      const answer = await get(path);
      const [, nonce = ''] = /content="([^"]+)"/.exec((await answer?.text()) ?? '') ?? [];
      expect(answer?.headers.get('content-security-policy')).toContain(`'nonce-${nonce}'`);
      nonces.add(nonce);
    }
    expect(nonces.size).toBe(4);
  });

  it('allow no script, style or connection but the host’s own; only the demo reaches out', async () => {
    const policy = (await get('/console'))?.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/unsafe-inline|unsafe-eval'(?<!wasm-unsafe-eval')|https:|\*/);
    const demo = (await get('/demo/'))?.headers.get('content-security-policy') ?? '';
    expect(demo).not.toMatch(/unsafe-inline|'unsafe-eval'/);
    expect(demo).toMatch(/connect-src [^;]*https:/);
    expect(await statusOf(get('/demo'))).toBe(308);
  });

  it('leave every other path to the planes, whatever it climbs to', async () => {
    for (const path of [
      '/models',
      '/assets',
      '/index.html',
      '/v1/models',
      '/assets/../../package.json',
      '/assets/%2e%2e/x',
      '/console2',
    ])
      expect([path, await get(path)]).toEqual([path, undefined]);
  });

  it('are kept by what they hold: hashed names for ever, others asked about each time', async () => {
    const asset = await get('/assets/console-1a.js');
    expect(asset?.headers.get('cache-control')).toMatch(/immutable/);
    const engine = await get('/engine/lathe.js');
    expect(engine?.headers.get('cache-control')).toBe('no-cache');
    const etag = engine?.headers.get('etag') ?? '';
    expect(await statusOf(get('/engine/lathe.js', { headers: { 'if-none-match': etag } }))).toBe(304);
  });

  it('come packed where that is understood, and without a body for HEAD', async () => {
    const packed = await get('/assets/console-1a.js', { headers: { 'accept-encoding': 'br, gzip' } });
    expect(packed?.headers.get('content-encoding')).toBe('gzip');
    const bytes = new Uint8Array((await packed?.arrayBuffer()) ?? new ArrayBuffer(0));
    expect(gunzipSync(bytes).toString()).toBe(files.get('/assets/console-1a.js'));
    const head = await get('/models/tiny.gguf', { method: 'HEAD' });
    expect([head?.headers.get('content-length'), await head?.text()]).toEqual(['10', '']);
  });

  it.each([
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=-2', 206, '89', 'bytes 8-9/10'],
    ['bytes=4-99', 206, '456789', 'bytes 4-9/10'],
    ['bytes=10-', 416, '', 'bytes */10'],
    ['bytes=-0', 416, '', 'bytes */10'],
    ['bytes=0-1,4-5', 200, '0123456789', null],
    ['lines=1-2', 200, '0123456789', null],
  ])('weights by range: %s', async (range, status, text, contentRange) => {
    const answer = await get('/models/tiny.gguf', { headers: { range } });
    expect(answer?.status).toBe(status);
    expect(await answer?.text()).toBe(text);
    expect(answer?.headers.get('content-range')).toBe(contentRange);
  });

  it('are whole again where what the range belongs to has changed', async () => {
    const headers = { range: 'bytes=0-3', 'if-range': '"other"' };
    expect(await (await get('/models/tiny.gguf', { headers }))?.text()).toBe('0123456789');
  });
});

describe('pages of a listener that asks for the bearer', () => {
  const bind = 'lan';
  const bearer = { authorization: `Bearer ${token}` };

  it('are refused like every route; whoever navigates is asked for the token', async () => {
    for (const path of ['/', '/console/lab', '/demo/']) {
      const asked = await get(path, { bind });
      expect([asked?.status, asked?.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      expect(await asked?.text()).toMatch(/<form>/);
    }
    for (const path of ['/assets/console-1a.js', '/engine/lathe.js', '/models/tiny.gguf'])
      await expect(get(path, { bind, headers: { accept: '*/*' } })).rejects.toThrow(Problem);
    expect(await statusOf(get('/models/tiny.gguf', { bind, headers: bearer }))).toBe(200);
  });

  it('open by the cookie that the door gives for the bearer, which no other process gave', async () => {
    const pages = open();
    const door = (headers: Record<string, string>) =>
      get('/console/door', { pages, bind, method: 'POST', headers });
    await expect(door({})).rejects.toThrow(Problem);
    await expect(door({ authorization: 'Bearer wrong' })).rejects.toThrow(Problem);
    await expect(door({ ...bearer, origin: 'http://elsewhere' })).rejects.toThrow(/another origin/);
    await expect(door({ ...bearer, origin: 'null' })).rejects.toThrow(/another origin/);
    const given = (await door({ ...bearer, origin: 'http://host:8080' }))?.headers.get('set-cookie') ?? '';
    expect(given).toMatch(/; HttpOnly; SameSite=Strict$/);
    expect(given).not.toContain(token);
    const cookie = given.split(';')[0] ?? '';
    expect(await statusOf(get('/console/lab', { pages, bind, headers: { cookie: `a=b; ${cookie}` } }))).toBe(
      200,
    );
    expect(await statusOf(get('/console/lab', { bind, headers: { cookie } }))).toBe(401);
    expect(await statusOf(get('/console/lab', { pages, bind, headers: { cookie: `${cookie}x` } }))).toBe(401);
  });
});
