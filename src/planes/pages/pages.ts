import { generateSecret, hashSecret } from '../../signing/secret.ts';
import { HttpError } from '../../http/error.ts';
import { createPageResponse, newNonce, type PageFiles, StaticFiles } from '../../http/static-files.ts';
import { consolePolicy, demoPolicy } from './policy.ts';
import { signInPage, signInScript } from './sign-in.ts';

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
  readonly #files: StaticFiles;
  /**
   * Authentication checks by cookie hash. The check of `/console/door` is repeated for each file, so a cookie becomes
   * invalid with its token. Cookies are kept in memory: after a restart users sign in again.
   */
  readonly #sessions = new Map<string, () => Promise<unknown>>();

  constructor(files: PageFiles) {
    this.#files = new StaticFiles(files, demoPolicy);
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
    if (wantsPage) this.#files.refresh();
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
    return file.endsWith('.html') ? await this.#servePage(file) : await this.#files.serve(file, request);
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
   * All views of the console share one file. The answer at `/` depends on the client, because Ollama's clients request
   * it too.
   */
  #resolveFile(path: string, wantsPage: boolean, acceptsAny: boolean): string | undefined {
    const existing = (file: string) => (this.#files.has(file) ? file : undefined);
    if (path === '/') return wantsPage ? existing('/index.html') : undefined;
    if (path === '/console' || path.startsWith('/console/'))
      return wantsPage || acceptsAny ? existing('/index.html') : undefined;
    if (path === '/demo' || path === '/demo/') return existing('/demo/index.html');
    return path.endsWith('.html') ? undefined : existing(path);
  }

  async #servePage(file: string): Promise<Response> {
    const text = new TextDecoder().decode((await this.#files.read(file)).bytes);
    if (file !== '/index.html') return createPageResponse(text, demoPolicy);
    const nonce = newNonce();
    const htmlWithNonce = text.replace('name="csp-nonce" content=""', `name="csp-nonce" content="${nonce}"`);
    return createPageResponse(htmlWithNonce, consolePolicy(nonce));
  }
}

/** Behind a TLS proxy the host is called by http and knows the https port only if the proxy forwards it. */
function isSameOrigin(origin: string, url: string): boolean {
  const from = URL.parse(origin);
  const own = new URL(url);
  if (from?.protocol === 'https:' && own.port === '443') own.port = '';
  return from?.host === own.host && from.host !== '';
}
