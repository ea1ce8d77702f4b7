/**
 * Globals that web-llm expects, because it is written for web workers. They stay for the rest of the process, so only
 * contestant processes import this.
 */
import { readFile } from 'node:fs/promises';
import { requestAdapter } from '../../src/platform/node-adapter.ts';

/** Origin that the worker sees. No request is ever sent to it. */
export const origin = 'http://models.invalid';

/**
 * @param adapter substring of the adapter's name
 * @param fileOf returns the local file for a URL of `origin`; the cache serves it, so that nothing is downloaded
 */
export function installBrowserGlobals(adapter: string | undefined, localFile: (url: URL) => string): void {
  const gpu = { requestAdapter: () => requestAdapter(adapter === undefined ? {} : { adapter }) };
  const cache = {
    async match(request: Request): Promise<Response> {
      return new Response(await readFile(localFile(new URL(request.url))));
    },
    keys: () => Promise.resolve([]),
  };
  const globals = {
    navigator: { gpu },
    caches: { open: () => Promise.resolve(cache) },
    self: globalThis,
    location: { href: `${origin}/`, origin },
    // web-llm's compiled C++ code detects a worker by this function.
    importScripts: () => undefined,
  };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
}

/** Runs code that would detect Node and then fail, with the detection disabled. */
export async function withoutNodeDetection<Result>(run: () => Promise<Result>): Promise<Result> {
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
