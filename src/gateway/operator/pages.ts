import { contentSecurityPolicy } from '../../http/content-security-policy.ts';
import { errorResponse, hostEnvelope, HttpError } from '../../http/error.ts';
import type { App } from '../../http/listen.ts';
import { newHostRequestId } from '../../http/request-id.ts';
import { createPageResponse, type PageFiles, StaticFiles } from '../../http/static-files.ts';

/** The page of the operator in the web build. */
const indexFile = '/gateway/index.html';
/** Paths of the page's views (web/gateway/shell/views.ts); none is one of the API. */
const viewPath = /^\/(?:(?:keys|accounts|usage|catalog|providers|receipts|changes)(?:\/.*)?)?$/;

const policy = contentSecurityPolicy({
  'script-src': "'self'",
  'style-src': "'self'",
  'connect-src': "'self'",
  'img-src': "'self' data:",
  'worker-src': "'none'",
});

/**
 * Serves the operator's page at `/` and its views, and passes every other request to the app. The files need no token:
 * they have no data, and a navigation cannot send one.
 */
export function withOperatorPages(app: App, pageFiles: PageFiles | undefined): App {
  if (!pageFiles) return app;
  const files = new StaticFiles(pageFiles);
  return {
    async fetch(request, env) {
      let answer: Response | undefined;
      try {
        answer = await answerPage(files, request);
      } catch (error) {
        if (error instanceof HttpError) return errorResponse(error, hostEnvelope, newHostRequestId());
        throw error;
      }
      answer?.headers.set('x-request-id', newHostRequestId());
      return answer ?? (await app.fetch(request, env));
    },
  };
}

/** Undefined where the request is none for the page. */
async function answerPage(files: StaticFiles, request: Request): Promise<Response | undefined> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
  const { pathname } = new URL(request.url);
  if (/^\/assets\/[^/]+$|^\/icon\.svg$/.test(pathname))
    return files.has(pathname) ? await files.serve(pathname, request) : undefined;
  // Probes and tools that ask for anything keep the answer of the API.
  if (!viewPath.test(pathname) || !/\btext\/html\b/i.test(request.headers.get('accept') ?? ''))
    return undefined;
  files.refresh();
  if (!files.has(indexFile)) return undefined;
  return createPageResponse(new TextDecoder().decode((await files.read(indexFile)).bytes), policy);
}
