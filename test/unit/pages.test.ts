import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { BrowserSessions } from '../../src/http/browser-sessions.ts';
import { Access } from '../../src/planes/access.ts';
import { Pages } from '../../src/planes/pages/pages.ts';
import { HttpError } from '../../src/http/error.ts';
import { generateSecret, hashSecret } from '../../src/signing/secret.ts';

const files = new Map([
  ['/index.html', '<html><meta name="csp-nonce" content=""><div id="root"></div></html>'],
  ['/demo/index.html', '<html>demo</html>'],
  ['/assets/console-1a.js', 'console.log(1);'.repeat(50)],
  ['/engine/lathe.js', 'export {};'],
  ['/models/tiny.gguf', '0123456789'],
]);
const open = (held: ReadonlyMap<string, string> = files) =>
  new Pages({
    list: () => new Map([...held].map(([path, text]) => [path, hashSecret(text)])),
    async read(path) {
      const text = held.get(path);
      if (text === undefined) throw new Error('ENOENT');
      return new TextEncoder().encode(text);
    },
  });

const token = generateSecret('bearer');
const accessOf = (bind: 'loopback' | 'lan') =>
  new Access({ bind, bearerHash: hashSecret(token), operatorHash: undefined });

interface Asking {
  readonly pages?: Pages;
  readonly bind?: 'loopback' | 'lan';
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly access?: Access;
  readonly at?: string;
}

/** Requests a page as a browser navigation, or with another `accept` where given. */
async function get(
  path: string,
  {
    pages = open(),
    bind = 'loopback',
    method = 'GET',
    headers = {},
    access = accessOf(bind),
    at = 'http://host:8080',
  }: Asking = {},
) {
  const request = new Request(`${at}${path}`, {
    method,
    headers: { accept: 'text/html', ...headers },
  });
  const incoming = { method, path, headers: request.headers, remoteAddress: '10.0.0.7' };
  return await pages.answer(request, () => access.authenticate(incoming, { isPageFile: true }));
}
const statusOf = async (answer: ReturnType<typeof get>) => (await answer)?.status;

describe('pages of the host', () => {
  it('are served at / to browsers only: programs get the expected answer of the planes', async () => {
    expect(await statusOf(get('/'))).toBe(200);
    expect(await get('/', { headers: { accept: '*/*' } })).toBeUndefined();
    expect(await get('/', { method: 'POST' })).toBeUndefined();
    expect(await statusOf(get('/', { headers: { accept: 'TEXT/HTML' } }))).toBe(200);
    expect(await statusOf(get('/console', { headers: { accept: '*/*' } }))).toBe(200);
    expect(await get('/console', { headers: { accept: 'application/json' } })).toBeUndefined();
  });

  it.each(['/console', '/console/lab', '/demo/', '/icon.svg', '/assets/console-1a.js'])(
    'accept only GET and HEAD: %s',
    async (path) => {
      const pages = open(new Map([...files, ['/icon.svg', '<svg/>']]));
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
        await expect(get(path, { pages, method })).rejects.toMatchObject({
          status: 405,
          headers: { allow: 'GET, HEAD' },
        });
    },
  );

  it('belong to one build, even where they are replaced while the host runs', async () => {
    const held = new Map(files);
    const pages = open(held);
    expect(await (await get('/console', { pages }))?.text()).toContain('id="root"');
    await (await get('/assets/console-1a.js', { pages }))?.text();
    held.set('/index.html', '<html>new</html>');
    held.delete('/assets/console-1a.js');
    held.set('/assets/console-2b.js', 'new');
    expect(await (await get('/console', { pages }))?.text()).toBe('<html>new</html>');
    expect(await (await get('/assets/console-2b.js', { pages }))?.text()).toBe('new');
    // A file of the previous build no longer exists, like any other path.
    expect(await get('/assets/console-1a.js', { pages })).toBeUndefined();
    held.delete('/engine/lathe.js');
    await expect(get('/engine/lathe.js', { pages, headers: { accept: '*/*' } })).rejects.toMatchObject({
      status: 503,
      code: 'page_unreadable',
    });
  });

  it('have different tags with and without compression, so that ranges of the two are not combined', async () => {
    const path = '/engine/lathe.js';
    const plain = (await get(path))?.headers.get('etag') ?? '';
    const packed = (await get(path, { headers: { 'accept-encoding': 'gzip' } }))?.headers.get('etag') ?? '';
    expect(packed).not.toBe(plain);
    const part = { range: 'bytes=0-1', 'accept-encoding': 'gzip' };
    expect(await statusOf(get(path, { headers: { ...part, 'if-range': packed } }))).toBe(200);
    expect(await statusOf(get(path, { headers: { ...part, 'if-range': plain } }))).toBe(206);
    for (const tags of [plain, packed, `W/${packed}`, `"other", ${plain}`])
      expect(await statusOf(get(path, { headers: { 'if-none-match': tags } }))).toBe(304);
    expect(await statusOf(get(path, { headers: { 'if-none-match': '"other"' } }))).toBe(200);
  });

  it('keep the query of the demo URL when the slash is added', async () => {
    expect((await get('/demo?model=x'))?.headers.get('location')).toBe('/demo/?model=x');
  });

  it('are one file for all views, with a new nonce for each response', async () => {
    const nonces = new Set<string>();
    for (const path of ['/', '/console', '/console/lab/kernels', '/console/runs/r.1']) {
      const answer = await get(path);
      const [, nonce = ''] = /content="([^"]+)"/.exec((await answer?.text()) ?? '') ?? [];
      expect(answer?.headers.get('content-security-policy')).toContain(`'nonce-${nonce}'`);
      nonces.add(nonce);
    }
    expect(nonces.size).toBe(4);
  });

  it('allow only scripts, styles and connections of the host, except for the demo', async () => {
    const policy = (await get('/console'))?.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    expect(policy).not.toMatch(/unsafe-inline|unsafe-eval|https:|\*/);
    const demo = (await get('/demo/'))?.headers.get('content-security-policy') ?? '';
    expect(demo).not.toMatch(/unsafe-inline|'unsafe-eval'/);
    expect(demo).toMatch(/connect-src [^;]*https:/);
    expect(await statusOf(get('/demo'))).toBe(308);
  });

  it('leave every other path to the planes, including paths with dot segments', async () => {
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

  it('are cached by content: hashed names permanently, others are revalidated', async () => {
    const asset = await get('/assets/console-1a.js');
    expect(asset?.headers.get('cache-control')).toMatch(/immutable/);
    const engine = await get('/engine/lathe.js');
    expect(engine?.headers.get('cache-control')).toBe('no-cache');
    const etag = engine?.headers.get('etag') ?? '';
    expect(await statusOf(get('/engine/lathe.js', { headers: { 'if-none-match': etag } }))).toBe(304);
  });

  it('are compressed where the client accepts it, and have no body for HEAD', async () => {
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

  it('are sent whole where the file of the range has changed', async () => {
    const headers = { range: 'bytes=0-3', 'if-range': '"other"' };
    expect(await (await get('/models/tiny.gguf', { headers }))?.text()).toBe('0123456789');
  });
});

describe('pages of a listener that requires the bearer token', () => {
  const bind = 'lan';
  const bearer = { authorization: `Bearer ${token}` };

  it('are refused like every route; navigations get the sign-in page', async () => {
    for (const path of ['/', '/console/lab', '/demo/']) {
      const response = await get(path, { bind });
      expect([response?.status, response?.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
      expect(await response?.text()).toMatch(/<form>/);
    }
    for (const path of ['/assets/console-1a.js', '/engine/lathe.js', '/models/tiny.gguf'])
      await expect(get(path, { bind, headers: { accept: '*/*' } })).rejects.toThrow(HttpError);
    expect(await statusOf(get('/models/tiny.gguf', { bind, headers: bearer }))).toBe(200);
  });

  it('are served where the caller is known, by a token or a session', async () => {
    const sessions = new BrowserSessions({ name: 'session', isTls: false });
    const access = new Access({ bind, bearerHash: hashSecret(token), operatorHash: undefined, sessions });
    const { cookie } = sessions.start(new Headers({ host: 'host:8080' }), token);
    const look = (headers: Record<string, string>) =>
      statusOf(get('/console', { access, headers: { host: 'host:8080', ...headers } }));
    expect(await look({ cookie: `a=b; ${cookie}` })).toBe(200);
    expect(await look({ cookie: `${cookie.split(';')[0]}x` })).toBe(401);
  });

  it('name the file of the token to those who may know it, as text', async () => {
    const page = async (bound: 'loopback' | 'lan', file?: string) => {
      const request = new Request('http://host:8080/console', { headers: { accept: 'text/html' } });
      const head = { method: 'GET', path: '/console', headers: request.headers, remoteAddress: undefined };
      const pages = open(new Map([...files, ['/index.html', '<html><meta name="token-file" content="">']]));
      const answer = await pages.answer(request, () => accessOf(bound).authenticate(head), file);
      return (await answer?.text()) ?? '';
    };
    const file = '/home/<b>"ann"/bearer.token';
    const written = '/home/&#60;b&#62;&#34;ann&#34;/bearer.token';
    expect(await page('lan', file)).toContain(`<code>${written}</code>`);
    expect(await page('loopback', file)).toContain(`content="${written}"`);
    expect(await page('lan')).toContain("<code>bearer.token</code> of the host's data directory");
  });
});
