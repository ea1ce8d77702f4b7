import { HttpError } from '../../http/error.ts';
import { createPageResponse, newNonce, type PageFiles, StaticFiles } from '../../http/static-files.ts';
import { consolePolicy, demoPolicy } from './policy.ts';
import { escapeHtml, signInPage, signInScript } from './sign-in.ts';

/**
 * Serves the files of the console, the demo and the engine's module, outside of the planes. Where the listener requires
 * the bearer token, so do the files: a navigation cannot send one, so the sign-in page starts a session of the browser.
 */
export class Pages {
  readonly #files: StaticFiles;

  constructor(files: PageFiles) {
    this.#files = new StaticFiles(files, demoPolicy);
  }

  /**
   * Answers a request for a page; undefined where the planes should answer.
   * @param authenticate refuses by throwing, as for every route of the listener
   * @param tokenFile path of the file with the bearer token, where the client may know it
   */
  async answer(
    request: Request,
    authenticate: () => Promise<unknown>,
    tokenFile?: string,
  ): Promise<Response | undefined> {
    const url = new URL(request.url);
    const { pathname } = url;
    const accepts = request.headers.get('accept') ?? '*/*';
    const wantsPage = /\btext\/html\b/i.test(accepts);
    if (wantsPage) this.#files.refresh();
    const file = this.#resolveFile(pathname, wantsPage, accepts.includes('*/*'));
    if (file === undefined) return undefined;
    try {
      await authenticate();
    } catch (error) {
      if (!(error instanceof HttpError && error.status === 401 && wantsPage)) throw error;
      const nonce = newNonce();
      return createPageResponse(
        signInPage(nonce, tokenFile),
        consolePolicy(nonce, signInScript),
        401,
        error.headers,
      );
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      // Other methods of `/` are handled by the planes.
      if (pathname === '/') return undefined;
      const message = `${request.method} does not apply to ${pathname.slice(0, 200)}; use GET or HEAD.`;
      throw new HttpError(405, 'method_not_allowed', message, { headers: { allow: 'GET, HEAD' } });
    }
    if (pathname === '/demo')
      return new Response(null, { status: 308, headers: { location: `/demo/${url.search}` } });
    return file.endsWith('.html')
      ? await this.#servePage(file, tokenFile)
      : await this.#files.serve(file, request);
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

  async #servePage(file: string, tokenFile = ''): Promise<Response> {
    const text = new TextDecoder().decode((await this.#files.read(file)).bytes);
    if (file !== '/index.html') return createPageResponse(text, demoPolicy);
    const nonce = newNonce();
    const html = text
      .replace('name="csp-nonce" content=""', () => `name="csp-nonce" content="${nonce}"`)
      .replace('name="token-file" content=""', () => `name="token-file" content="${escapeHtml(tokenFile)}"`);
    return createPageResponse(html, consolePolicy(nonce));
  }
}
