import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Access } from '../planes/access.ts';
import { type PageFiles, Pages } from '../planes/pages/pages.ts';
import { hostEnvelope, Problem, problemResponse } from '../planes/problem.ts';
import { newRequestId } from '../planes/request-id.ts';
import type { App } from './gateway.ts';

/** What the web build left in `dist/web`; nothing where it was not run. Only what is there now is ever read. */
export function openPages(packageRoot: string): Pages {
  const folder = join(packageRoot, 'dist', 'web');
  return new Pages({ paths: filesBelow(folder), read: (path) => readFile(join(folder, path)) });
}

function filesBelow(folder: string): PageFiles['paths'] {
  try {
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    return new Set(
      files.map(
        ({ parentPath, name }) => `/${relative(folder, join(parentPath, name)).replaceAll('\\', '/')}`,
      ),
    );
  } catch {
    // The host runs from its sources.
    return new Set();
  }
}

/** The pages, and behind them all that a program asks for. */
export const withPages = (planes: App, pages: Pages | undefined, access: Access): App =>
  pages
    ? {
        async fetch(request, env) {
          const { incoming } = env as { incoming?: { socket?: { remoteAddress?: string } } };
          const { method, headers, url } = request;
          const remoteAddress = incoming?.socket?.remoteAddress;
          const enter = () => access.enter({ method, path: new URL(url).pathname, headers, remoteAddress });
          try {
            return (await pages.answer(request, enter)) ?? (await planes.fetch(request, env));
          } catch (error) {
            if (error instanceof Problem) return problemResponse(error, hostEnvelope, newRequestId());
            throw error;
          }
        },
      }
    : planes;
