import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { generateSecret, hashSecret } from '../../signing/secret.ts';
import { HttpError } from '../../http/error.ts';
import { consolePolicy, demoPolicy } from './policy.ts';
import { signInPage, signInScript } from './sign-in.ts';

/** Access to the files of `dist/web`. */
export interface PageFiles {
  /** Maps paths such as `/assets/console-a1b2.js` to a value that changes with the version of the file. */
  readonly list: () => ReadonlyMap<string, string>;
  readonly read: (path: string) => Promise<Uint8Array>;
}

interface CachedFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly etag: string;
  gzipBytes?: Uint8Array<ArrayBuffer>;
}

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json',
  wasm: 'application/wasm',
  woff2: 'font/woff2',
  gguf: 'application/octet-stream',
};
const contentTypeOf = (path: string): string =>
  contentTypes[path.slice(path.lastIndexOf('.') + 1)] ?? 'application/octet-stream';

/**
 * Browsers send cookies to every port of a host name, so hosts on different ports need different cookie names.
 */
const cookieName = ({ port }: URL): string => `lathe_pages_${port || 'default'}`;

/** Limit of signed-in browsers; beyond it the oldest cookie is dropped. */
const maxSessions = 256;

/**
 * Serves the files of the console, the demo and the engine's module, outside of the planes. Where the listener requires
 * the bearer token, so do the files: a navigation cannot send one, so `/console/door` issues a cookie for it, which
 * gives access to these files only and to no route.
 */
export class Pages {
  readonly #files: PageFiles;
  #paths: ReadonlyMap<string, string>;
  readonly #cached = new Map<string, Promise<CachedFile>>();
  /**
   * Authentication checks by cookie hash. The check of `/console/door` is repeated for each file, so a cookie becomes
   * invalid with its token. Cookies are kept in memory: after a restart users sign in again.
   */
  readonly #sessions = new Map<string, () => Promise<unknown>>();

  constructor(files: PageFiles) {
    this.#files = files;
    this.#paths = files.list();
  }

  /**
   * Answers a request for a page; undefined where the planes should answer.
   * @param authenticate refuses by throwing, as for every route of the listener
   */
  async answer(request: Request, authenticate: () => Promise<unknown>): Promise<Response | undefined> {
    const url = new URL(request.url);
    const { pathname } = url;
    if (request.method === 'POST' && pathname === '/console/door')
      return await this.#signIn(request, authenticate);
    const accepts = request.headers.get('accept') ?? '*/*';
    const wantsPage = /\btext\/html\b/i.test(accepts);
    if (wantsPage) this.#refreshPaths();
    const file = this.#resolveFile(pathname, wantsPage, accepts.includes('*/*'));
    if (file === undefined) return undefined;
    try {
      // A cookie replaces the bearer token only, not an operator credential sent with it.
      const sessionCheck = request.headers.has('x-svc-operator')
        ? undefined
        : this.#findSession(request, url);
      await (sessionCheck ?? authenticate)();
    } catch (error) {
      if (!(error instanceof HttpError && error.status === 401 && wantsPage)) throw error;
      const nonce = newNonce();
      return createPageResponse(signInPage(nonce), consolePolicy(nonce, signInScript), 401, error.headers);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      // Other methods of `/` are handled by the planes.
      if (pathname === '/') return undefined;
      const message = `${request.method} does not apply to ${pathname.slice(0, 200)}; use GET or HEAD.`;
      throw new HttpError(405, 'method_not_allowed', message, { headers: { allow: 'GET, HEAD' } });
    }
    if (pathname === '/demo')
      return new Response(null, { status: 308, headers: { location: `/demo/${url.search}` } });
    return file.endsWith('.html') ? await this.#servePage(file) : await this.#serveFile(file, request);
  }

  async #signIn(request: Request, authenticate: () => Promise<unknown>): Promise<Response> {
    await authenticate();
    const from = request.headers.get('origin');
    if (from !== null && !isSameOrigin(from, request.url))
      throw new HttpError(403, 'foreign_page', 'A page of another origin cannot sign in.');
    const sessionSecret = generateSecret('session');
    const [first] = this.#sessions.keys();
    if (first !== undefined && this.#sessions.size >= maxSessions) this.#sessions.delete(first);
    this.#sessions.set(hashSecret(sessionSecret), authenticate);
    const secure = new URL(request.url).protocol === 'https:' ? '; Secure' : '';
    const cookie = `${cookieName(new URL(request.url))}=${sessionSecret}; Path=/; HttpOnly; SameSite=Strict${secure}`;
    return new Response(null, {
      status: 204,
      headers: { 'set-cookie': cookie, 'cache-control': 'no-store' },
    });
  }

  /** Checks every cookie of the name, because other pages of a site may have set some. */
  #findSession({ headers }: Request, url: URL): (() => Promise<unknown>) | undefined {
    const prefix = `${cookieName(url)}=`;
    for (const rangeHeaders of (headers.get('cookie') ?? '').split(';')) {
      const cookie = rangeHeaders.trim();
      const check = cookie.startsWith(prefix)
        ? this.#sessions.get(hashSecret(cookie.slice(prefix.length)))
        : undefined;
      if (check) return check;
    }
    return undefined;
  }

  /**
   * The files belong to one build. Where they were replaced while the host runs, opening a page loads the new ones.
   */
  #refreshPaths(): void {
    const previousPaths = this.#paths;
    this.#paths = this.#files.list();
    for (const path of this.#cached.keys())
      if (this.#paths.get(path) !== previousPaths.get(path)) this.#cached.delete(path);
  }

  /**
   * All views of the console share one file. The answer at `/` depends on the client, because Ollama's clients request
   * it too.
   */
  #resolveFile(path: string, wantsPage: boolean, acceptsAny: boolean): string | undefined {
    const existing = (file: string) => (this.#paths.has(file) ? file : undefined);
    if (path === '/') return wantsPage ? existing('/index.html') : undefined;
    if (path === '/console' || path.startsWith('/console/'))
      return wantsPage || acceptsAny ? existing('/index.html') : undefined;
    if (path === '/demo' || path === '/demo/') return existing('/demo/index.html');
    return path.endsWith('.html') ? undefined : existing(path);
  }

  async #servePage(file: string): Promise<Response> {
    const text = new TextDecoder().decode((await this.#readFile(file)).bytes);
    if (file !== '/index.html') return createPageResponse(text, demoPolicy);
    const nonce = newNonce();
    const htmlWithNonce = text.replace('name="csp-nonce" content=""', `name="csp-nonce" content="${nonce}"`);
    return createPageResponse(htmlWithNonce, consolePolicy(nonce));
  }

  async #serveFile(file: string, request: Request): Promise<Response> {
    const cached = await this.#readFile(file);
    const { bytes, etag } = cached;
    const type = contentTypeOf(file);
    const acceptsGzip =
      /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '') && type !== contentTypes['gguf'];
    const range = parseRange(request.headers.get('range'), request.headers.get('if-range'), cached);
    // The compressed bytes need a different tag, so that ranges of the two are not combined.
    const compressed = acceptsGzip && !range ? (cached.gzipBytes ??= gzipSync(bytes)) : undefined;
    const headers: Record<string, string> = {
      'content-type': type,
      etag: compressed ? gzipTag(etag) : etag,
      // The names of assets change with their content.
      'cache-control': file.startsWith('/assets/') ? 'private, max-age=31536000, immutable' : 'no-cache',
      'accept-ranges': 'bytes',
      vary: 'accept-encoding, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...(type.startsWith('text/javascript') ? { 'content-security-policy': demoPolicy } : {}),
    };
    if (matchesTag(request.headers.get('if-none-match'), cached))
      return new Response(null, { status: 304, headers });
    const isHead = request.method === 'HEAD';
    if (range === 'none') {
      const rangeErrorHeaders = { ...headers, 'content-range': `bytes */${bytes.length}` };
      return new Response(null, { status: 416, headers: rangeErrorHeaders });
    }
    if (range) {
      const [start, end] = range;
      const rangeHeaders = { ...headers, 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` };
      return createFileResponse(isHead, bytes.subarray(start, end), 206, rangeHeaders);
    }
    if (!compressed) return createFileResponse(isHead, bytes, 200, headers);
    return createFileResponse(isHead, compressed, 200, { ...headers, 'content-encoding': 'gzip' });
  }

  async #readFile(file: string): Promise<CachedFile> {
    let reading = this.#cached.get(file);
    if (!reading) {
      reading = this.#files.read(file).then((read) => {
        const bytes = new Uint8Array(read);
        return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` };
      });
      this.#cached.set(file, reading);
    }
    try {
      return await reading;
    } catch {
      // The file may be readable again on the next request.
      this.#cached.delete(file);
      const message = `${file} of the host's pages cannot be read; if they were rebuilt, reload the page.`;
      throw new HttpError(503, 'page_unreadable', message, { headers: { 'retry-after': '2' } });
    }
  }
}

/** Behind a TLS proxy the host is called by http and knows the https port only if the proxy forwards it. */
function isSameOrigin(origin: string, url: string): boolean {
  const from = URL.parse(origin);
  const own = new URL(url);
  if (from?.protocol === 'https:' && own.port === '443') own.port = '';
  return from?.host === own.host && from.host !== '';
}

const gzipTag = (etag: string): string => `${etag.slice(0, -1)}-gzip"`;

/** Whether the client has the current version, compressed or not; compressing proxies make tags weak. */
const matchesTag = (requestedTag: string | null, { etag }: CachedFile): boolean =>
  (requestedTag ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === gzipTag(etag));

const newNonce = (): string => randomBytes(18).toString('base64url');

const createFileResponse = (
  isHead: boolean,
  bytes: Uint8Array<ArrayBuffer>,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response =>
  new Response(isHead ? null : bytes, {
    status,
    headers: { ...headers, 'content-length': String(bytes.length) },
  });

const createPageResponse = (
  html: string,
  policy: string,
  status = 200,
  extraHeaders: Readonly<Record<string, string>> = {},
): Response =>
  new Response(html, {
    status,
    headers: {
      'content-type': contentTypes['html'] ?? '',
      'content-security-policy': policy,
      'cache-control': 'no-store',
      vary: 'accept, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      ...extraHeaders,
    },
  });

/**
 * Start and exclusive end of a single requested range; multiple ranges are answered with the whole file, as the
 * standard allows.
 */
function parseRange(
  rangeHeader: string | null,
  ifRange: string | null,
  { bytes, etag }: CachedFile,
): readonly [number, number] | 'none' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(rangeHeader ?? '') ?? [];
  if ((first === '' && last === '') || (ifRange !== null && ifRange !== etag)) return undefined;
  const size = bytes.length;
  if (first === '') return last === '0' ? 'none' : [Math.max(0, size - Number(last)), size];
  const start = Number(first);
  const end = last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? [start, end] : 'none';
}
