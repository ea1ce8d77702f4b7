import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { newSecret, secretFits, secretHash } from '../../signing/secret.ts';
import { Problem } from '../problem.ts';
import { consolePolicy, demoPolicy } from './policy.ts';
import { signInPage, signInScript } from './sign-in.ts';

/** The files of `dist/web` by path, as `/assets/console-a1b2.js`, and how to read them. */
export interface PageFiles {
  readonly paths: ReadonlySet<string>;
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

const cookieName = 'lathe_pages';

/**
 * The console, the demo and the engine's module: files and nothing else, so no route of any plane. Where the listener
 * asks for the bearer, so do they: a navigation cannot bring one, so the door gives a cookie for it, which opens these files
 * alone and no route.
 */
export class Pages {
  readonly #files: PageFiles;
  readonly #held = new Map<string, Promise<Held>>();
  /** Of this process: a host that was started again asks again. */
  readonly #pass = newSecret('session');
  readonly #passHash = secretHash(this.#pass);

  constructor(files: PageFiles) {
    this.#files = files;
  }

  /**
   * Undefined: it is no page's, the planes answer.
   * @param enter refuses by throwing, as for every route of the listener
   */
  async answer(request: Request, enter: () => Promise<unknown>): Promise<Response | undefined> {
    const { pathname } = new URL(request.url);
    if (request.method === 'POST' && pathname === '/console/door') return await this.#door(request, enter);
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
    const wantsPage = /\btext\/html\b/.test(request.headers.get('accept') ?? '');
    const file = this.#fileOf(pathname, wantsPage);
    if (file === undefined) return undefined;
    if (!this.#hasPass(request)) {
      try {
        await enter();
      } catch (error) {
        if (!(error instanceof Problem && error.status === 401 && wantsPage)) throw error;
        const nonce = newNonce();
        return page(signInPage(nonce), consolePolicy(nonce, signInScript), 401, error.headers);
      }
    }
    if (pathname === '/demo') return new Response(null, { status: 308, headers: { location: '/demo/' } });
    return file.endsWith('.html') ? await this.#page(file) : await this.#file(file, request);
  }

  async #door(request: Request, enter: () => Promise<unknown>): Promise<Response> {
    await enter();
    const from = request.headers.get('origin');
    if (from !== null && (!URL.canParse(from) || new URL(from).host !== new URL(request.url).host))
      throw new Problem(403, 'foreign_page', 'A page of another origin opens nothing here.');
    const cookie = `${cookieName}=${this.#pass}; Path=/; HttpOnly; SameSite=Strict`;
    return new Response(null, { status: 204, headers: { 'set-cookie': cookie } });
  }

  #hasPass({ headers }: Request): boolean {
    const cookies = (headers.get('cookie') ?? '').split(';').map((cookie) => cookie.trim());
    const given = cookies.find((cookie) => cookie.startsWith(`${cookieName}=`));
    return given !== undefined && secretFits(this.#passHash, given.slice(cookieName.length + 1));
  }

  /** Of the views of the console there is one file; what stands at `/` depends on who asks: Ollama's clients do, too. */
  #fileOf(path: string, wantsPage: boolean): string | undefined {
    const { paths } = this.#files;
    const known = (file: string) => (paths.has(file) ? file : undefined);
    if (path === '/' || path === '/console' || path.startsWith('/console/'))
      return wantsPage ? known('/index.html') : undefined;
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
    const headers: Record<string, string> = {
      'content-type': type,
      etag,
      // The names of assets change with what they hold.
      'cache-control': file.startsWith('/assets/') ? 'private, max-age=31536000, immutable' : 'no-cache',
      'accept-ranges': 'bytes',
      vary: 'accept-encoding, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      ...(type.startsWith('text/javascript') ? { 'content-security-policy': demoPolicy } : {}),
    };
    if (request.headers.get('if-none-match') === etag) return new Response(null, { status: 304, headers });
    const isHead = request.method === 'HEAD';
    const range = rangeOf(request.headers.get('range'), request.headers.get('if-range'), held);
    if (range === 'none') {
      const outside = { ...headers, 'content-range': `bytes */${bytes.length}` };
      return new Response(null, { status: 416, headers: outside });
    }
    if (range) {
      const [start, end] = range;
      const part = { ...headers, 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` };
      return sent(isHead, bytes.subarray(start, end), 206, part);
    }
    const zips = /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '') && type !== types['gguf'];
    if (!zips) return sent(isHead, bytes, 200, headers);
    held.zipped ??= gzipSync(bytes);
    return sent(isHead, held.zipped, 200, { ...headers, 'content-encoding': 'gzip' });
  }

  #read(file: string): Promise<Held> {
    let reading = this.#held.get(file);
    if (!reading) {
      reading = this.#files.read(file).then((read) => {
        const bytes = new Uint8Array(read);
        return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` };
      });
      this.#held.set(file, reading);
      // It may be there again the next time.
      reading.catch(() => this.#held.delete(file));
    }
    return reading;
  }
}

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
