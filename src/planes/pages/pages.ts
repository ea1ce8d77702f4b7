import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { newSecret, secretHash } from '../../signing/secret.ts';
import { HttpError } from '../../http/error.ts';
import { consolePolicy, demoPolicy } from './policy.ts';
import { signInPage, signInScript } from './sign-in.ts';

/** The files of `dist/web`. */
export interface PageFiles {
  /** By path, as `/assets/console-a1b2.js`: what tells one version of each from another. */
  readonly list: () => ReadonlyMap<string, string>;
  readonly read: (path: string) => Promise<Uint8Array>;
}

interface Held {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly etag: string;
  zipped?: Uint8Array<ArrayBuffer>;
}

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json',
  wasm: 'application/wasm',
  gguf: 'application/octet-stream',
};
const typeOf = (path: string): string =>
  types[path.slice(path.lastIndexOf('.') + 1)] ?? 'application/octet-stream';

/** Browsers send cookies to every port of a name: hosts beside each other keep theirs apart. */
const cookieOf = ({ port }: URL): string => `lathe_pages_${port || 'default'}`;

/** Of people that are signed in at a time; beyond it the first asks for the token again. */
const mostPasses = 256;

/**
 * The console, the demo and the engine's module: files and nothing else, so no route of any plane. Where the listener
 * asks for the bearer, so do they: a navigation cannot bring one, so the door gives a cookie for it, which opens these files
 * alone and no route.
 */
export class Pages {
  readonly #files: PageFiles;
  #paths: ReadonlyMap<string, string>;
  readonly #held = new Map<string, Promise<Held>>();
  /**
   * What the cookies stand for, by their hashes: the door's own question, asked again with each file, so that a cookie ends
   * with the token that it was given for. Of this process: a host that was started again asks again.
   */
  readonly #passes = new Map<string, () => Promise<unknown>>();

  constructor(files: PageFiles) {
    this.#files = files;
    this.#paths = files.list();
  }

  /**
   * Undefined: it is no page's, the planes answer.
   * @param enter refuses by throwing, as for every route of the listener
   */
  async answer(request: Request, enter: () => Promise<unknown>): Promise<Response | undefined> {
    const url = new URL(request.url);
    const { pathname } = url;
    if (request.method === 'POST' && pathname === '/console/door') return await this.#door(request, enter);
    const accepts = request.headers.get('accept') ?? '*/*';
    const wantsPage = /\btext\/html\b/i.test(accepts);
    if (wantsPage) this.#renew();
    const file = this.#fileOf(pathname, wantsPage, accepts.includes('*/*'));
    if (file === undefined) return undefined;
    try {
      // A cookie stands for the bearer, and for no other credential that comes beside it.
      const pass = request.headers.has('x-svc-operator') ? undefined : this.#passOf(request, url);
      await (pass ?? enter)();
    } catch (error) {
      if (!(error instanceof HttpError && error.status === 401 && wantsPage)) throw error;
      const nonce = newNonce();
      return page(signInPage(nonce), consolePolicy(nonce, signInScript), 401, error.headers);
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      // What else `/` takes, or does not, is for the planes to say.
      if (pathname === '/') return undefined;
      const message = `${request.method} does not apply to ${pathname.slice(0, 200)}; use GET or HEAD.`;
      throw new HttpError(405, 'method_not_allowed', message, { headers: { allow: 'GET, HEAD' } });
    }
    if (pathname === '/demo')
      return new Response(null, { status: 308, headers: { location: `/demo/${url.search}` } });
    return file.endsWith('.html') ? await this.#page(file) : await this.#file(file, request);
  }

  async #door(request: Request, enter: () => Promise<unknown>): Promise<Response> {
    await enter();
    const from = request.headers.get('origin');
    if (from !== null && !isOwn(from, request.url))
      throw new HttpError(403, 'foreign_page', 'A page of another origin opens nothing here.');
    const pass = newSecret('session');
    const [first] = this.#passes.keys();
    if (first !== undefined && this.#passes.size >= mostPasses) this.#passes.delete(first);
    this.#passes.set(secretHash(pass), enter);
    const cookie = `${cookieOf(new URL(request.url))}=${pass}; Path=/; HttpOnly; SameSite=Strict`;
    return new Response(null, {
      status: 204,
      headers: { 'set-cookie': cookie, 'cache-control': 'no-store' },
    });
  }

  /** Any cookie of the name: other pages of a site may have set some before. */
  #passOf({ headers }: Request, url: URL): (() => Promise<unknown>) | undefined {
    const begin = `${cookieOf(url)}=`;
    for (const part of (headers.get('cookie') ?? '').split(';')) {
      const cookie = part.trim();
      const asks = cookie.startsWith(begin)
        ? this.#passes.get(secretHash(cookie.slice(begin.length)))
        : undefined;
      if (asks) return asks;
    }
    return undefined;
  }

  /** Files are of one build: where they were replaced while the host runs, whoever opens a page gets what is there now. */
  #renew(): void {
    const before = this.#paths;
    this.#paths = this.#files.list();
    for (const path of this.#held.keys())
      if (this.#paths.get(path) !== before.get(path)) this.#held.delete(path);
  }

  /** Of the views of the console there is one file; what stands at `/` depends on who asks: Ollama's clients do, too. */
  #fileOf(path: string, wantsPage: boolean, takesAny: boolean): string | undefined {
    const known = (file: string) => (this.#paths.has(file) ? file : undefined);
    if (path === '/') return wantsPage ? known('/index.html') : undefined;
    if (path === '/console' || path.startsWith('/console/'))
      return wantsPage || takesAny ? known('/index.html') : undefined;
    if (path === '/demo' || path === '/demo/') return known('/demo/index.html');
    return path.endsWith('.html') ? undefined : known(path);
  }

  async #page(file: string): Promise<Response> {
    const text = new TextDecoder().decode((await this.#read(file)).bytes);
    if (file !== '/index.html') return page(text, demoPolicy);
    const nonce = newNonce();
    const marked = text.replace('name="csp-nonce" content=""', `name="csp-nonce" content="${nonce}"`);
    return page(marked, consolePolicy(nonce));
  }

  async #file(file: string, request: Request): Promise<Response> {
    const held = await this.#read(file);
    const { bytes, etag } = held;
    const type = typeOf(file);
    const zips = /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '') && type !== types['gguf'];
    const range = rangeOf(request.headers.get('range'), request.headers.get('if-range'), held);
    // Other bytes, so another tag: nobody joins a part of one to a part of the other.
    const packed = zips && !range ? (held.zipped ??= gzipSync(bytes)) : undefined;
    const headers: Record<string, string> = {
      'content-type': type,
      etag: packed ? zippedTag(etag) : etag,
      // The names of assets change with what they hold.
      'cache-control': file.startsWith('/assets/') ? 'private, max-age=31536000, immutable' : 'no-cache',
      'accept-ranges': 'bytes',
      vary: 'accept-encoding, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...(type.startsWith('text/javascript') ? { 'content-security-policy': demoPolicy } : {}),
    };
    if (isKnown(request.headers.get('if-none-match'), held))
      return new Response(null, { status: 304, headers });
    const isHead = request.method === 'HEAD';
    if (range === 'none') {
      const outside = { ...headers, 'content-range': `bytes */${bytes.length}` };
      return new Response(null, { status: 416, headers: outside });
    }
    if (range) {
      const [start, end] = range;
      const part = { ...headers, 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` };
      return sent(isHead, bytes.subarray(start, end), 206, part);
    }
    if (!packed) return sent(isHead, bytes, 200, headers);
    return sent(isHead, packed, 200, { ...headers, 'content-encoding': 'gzip' });
  }

  async #read(file: string): Promise<Held> {
    let reading = this.#held.get(file);
    if (!reading) {
      reading = this.#files.read(file).then((read) => {
        const bytes = new Uint8Array(read);
        return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` };
      });
      this.#held.set(file, reading);
    }
    try {
      return await reading;
    } catch {
      // It may be there again the next time.
      this.#held.delete(file);
      const message = `${file} of the host's pages cannot be read; if they were built again meanwhile, load the page again.`;
      throw new HttpError(503, 'page_unreadable', message, { headers: { 'retry-after': '2' } });
    }
  }
}

/** Where TLS ends at a proxy, the host is asked by http and knows the port of https only if the proxy names it. */
function isOwn(origin: string, url: string): boolean {
  const from = URL.parse(origin);
  const own = new URL(url);
  if (from?.protocol === 'https:' && own.port === '443') own.port = '';
  return from?.host === own.host && from.host !== '';
}

const zippedTag = (etag: string): string => `${etag.slice(0, -1)}-gzip"`;

/** Of either form; proxies that pack what passes make tags weak. */
const isKnown = (asked: string | null, { etag }: Held): boolean =>
  (asked ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === zippedTag(etag));

const newNonce = (): string => randomBytes(18).toString('base64url');

const sent = (
  isHead: boolean,
  bytes: Uint8Array<ArrayBuffer>,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response =>
  new Response(isHead ? null : bytes, {
    status,
    headers: { ...headers, 'content-length': String(bytes.length) },
  });

const page = (
  html: string,
  policy: string,
  status = 200,
  more: Readonly<Record<string, string>> = {},
): Response =>
  new Response(html, {
    status,
    headers: {
      'content-type': types['html'] ?? '',
      'content-security-policy': policy,
      'cache-control': 'no-store',
      vary: 'accept, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      ...more,
    },
  });

/** Start and exclusive end of the one range that is asked for; several are answered by the whole, as the standard allows. */
function rangeOf(
  asked: string | null,
  ifRange: string | null,
  { bytes, etag }: Held,
): readonly [number, number] | 'none' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(asked ?? '') ?? [];
  if ((first === '' && last === '') || (ifRange !== null && ifRange !== etag)) return undefined;
  const size = bytes.length;
  if (first === '') return last === '0' ? 'none' : [Math.max(0, size - Number(last)), size];
  const start = Number(first);
  const end = last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? [start, end] : 'none';
}
