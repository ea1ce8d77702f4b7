/**
 * What web-llm expects around it: it is written for a web worker. The globals stay for the rest of the process,
 * which is why this is imported by a contestant only.
 */
import { readFile } from 'node:fs/promises';
import { requestAdapter } from '../../src/platform/node-adapter.ts';

/** Where the worker believes to be. Nothing is ever asked of it. */
export const origin = 'http://models.invalid';

/**
 * @param adapter a part of the adapter's name
 * @param fileOf the local file behind a URL of `origin`: what its cache holds, so that it downloads nothing
 */
export function becomeBrowser(adapter: string | undefined, fileOf: (url: URL) => string): void {
  const gpu = { requestAdapter: () => requestAdapter(adapter === undefined ? {} : { adapter }) };
  const cache = {
    async match(request: Request): Promise<Response> {
      return new Response(await readFile(fileOf(new URL(request.url))));
    },
    keys: () => Promise.resolve([]),
  };
  const globals = {
    navigator: { gpu },
    caches: { open: () => Promise.resolve(cache) },
    self: globalThis,
    location: { href: `${origin}/`, origin },
    // Its compiled C++ parts tell a worker by this one.
    importScripts: () => undefined,
  };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
}

/** Runs something that would take another way if it knew that it is in Node, and fail there. */
export async function asIfNotNode<Result>(run: () => Promise<Result>): Promise<Result> {
  const { versions } = process;
  Object.defineProperty(process, 'versions', {
    value: { ...versions, node: undefined },
    configurable: true,
  });
  try {
    return await run();
  } finally {
    Object.defineProperty(process, 'versions', { value: versions, configurable: true });
  }
}
