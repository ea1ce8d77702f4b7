import { readdirSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Access } from '../planes/access.ts';
import { type PageFiles, Pages } from '../planes/pages/pages.ts';
import { hostEnvelope, HttpError, errorResponse } from '../http/error.ts';
import { newHostRequestId } from '../http/request-id.ts';
import type { App } from '../http/listen.ts';

/** The pages that the web build wrote to `dist/web`; none if it was not run. */
export function openPages(packageRoot: string): Pages {
  const folder = join(packageRoot, 'dist', 'web');
  return new Pages({ list: () => filesBelow(folder), read: (path) => readFile(join(folder, path)) });
}

function filesBelow(folder: string): ReturnType<PageFiles['list']> {
  const files = new Map<string, string>();
  try {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const file = join(entry.parentPath, entry.name);
      const { mtimeMs, size } = statSync(file);
      files.set(`/${relative(folder, file).replaceAll('\\', '/')}`, `${mtimeMs} ${size}`);
    }
  } catch {
    // The host runs from its sources without a web build, or the build is in progress.
  }
  return files;
}

/** Serves the web pages, and passes every other request to the planes. */
export const withPages = (planes: App, pages: Pages | undefined, access: Access): App =>
  pages
    ? {
        async fetch(request, env) {
          const { incoming } = env as { incoming?: { socket?: { remoteAddress?: string } } };
          const { method, headers, url } = request;
          const remoteAddress = incoming?.socket?.remoteAddress;
          const enter = () =>
            access.authenticate({ method, path: new URL(url).pathname, headers, remoteAddress });
          let answer: Response | undefined;
          try {
            answer = await pages.answer(request, enter);
          } catch (error) {
            if (error instanceof HttpError) return errorResponse(error, hostEnvelope, newHostRequestId());
            throw error;
          }
          answer?.headers.set('x-request-id', newHostRequestId());
          return answer ?? (await planes.fetch(request, env));
        },
      }
    : planes;
