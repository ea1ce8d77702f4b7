import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Access } from '../planes/access.ts';
import { Pages } from '../planes/pages/pages.ts';
import { isLoopback } from '../http/host-guard.ts';
import { hostEnvelope, HttpError, errorResponse } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import type { App } from '../http/listen.ts';
import { fileVersion, webBuildFiles } from '../platform/web-build.ts';

/** The installed package has the embedded model once: not also in `dist/web`. */
const embeddedModel = '/models/lathe-tiny-q8_0.gguf';

/** The pages that the web build wrote to `dist/web`; none if it was not run. */
export function openPages(packageRoot: string): Pages {
  const build = webBuildFiles(packageRoot);
  const model = join(packageRoot, embeddedModel);
  return new Pages({
    list() {
      const files = new Map(build.list());
      if (files.size > 0 && existsSync(model)) files.set(embeddedModel, fileVersion(model));
      return files;
    },
    read: (path) => (path === embeddedModel ? readFile(model) : build.read(path)),
  });
}

/**
 * Serves the web pages, and passes every other request to the planes.
 * @param tokenFile path of the file with the bearer token; only people on this machine are told
 */
export const withPages = (
  planes: App,
  pages: Pages | undefined,
  { access, tokenFile }: { readonly access: Access; readonly tokenFile?: string },
): App =>
  pages
    ? {
        async fetch(request, env) {
          const { incoming } = env as { incoming?: { socket?: { remoteAddress?: string } } };
          const { method, headers, url } = request;
          const remoteAddress = incoming?.socket?.remoteAddress;
          const enter = () =>
            access.authenticate(
              { method, path: new URL(url).pathname, headers, remoteAddress },
              { isPageFile: true },
            );
          let answer: Response | undefined;
          try {
            answer = await pages.answer(
              request,
              enter,
              isFromThisMachine(request, remoteAddress) ? tokenFile : undefined,
            );
          } catch (error) {
            if (error instanceof HttpError) return errorResponse(error, hostEnvelope, newHostRequestId());
            throw error;
          }
          answer?.headers.set('x-request-id', newHostRequestId());
          return answer ?? (await planes.fetch(request, env));
        },
      }
    : planes;

/** Whether a request comes from a browser of this machine, as far as it tells: not through a proxy that runs here. */
const isFromThisMachine = ({ headers, url }: Request, remoteAddress = ''): boolean =>
  isLoopback(remoteAddress.replace(/^::ffff:/i, '')) &&
  isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, '')) &&
  !['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip'].some((name) => headers.has(name));
