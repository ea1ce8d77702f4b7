import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { Readable } from 'node:stream';
import { type LocalServer, rangeOf, serve } from './local-server.ts';

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
};

export interface StaticSite extends LocalServer {
  /** Paths that were asked for, below the site. */
  readonly requestedPaths: readonly string[];
  /** `Range` headers of requests. */
  readonly ranges: readonly string[];
}

export interface StaticSiteOptions {
  /** Where the site begins; with a slash at both ends. */
  readonly below?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** So many bytes of a model are sent, and the rest when this resolves. */
  readonly held?: { readonly after: number; readonly until: Promise<void> };
}

async function* heldParts(
  parts: AsyncIterable<Buffer>,
  { after, until }: NonNullable<StaticSiteOptions['held']>,
): AsyncGenerator<Buffer> {
  let sent = 0;
  for await (const part of parts) {
    sent += part.length;
    if (sent > after) await until;
    yield part;
  }
}

/** A folder as any static web server would serve it: files, ranges of them, `index.html` of a folder. */
export async function openStaticSite(
  folder: string,
  { below = '/', headers = {}, held }: StaticSiteOptions = {},
): Promise<StaticSite> {
  const requestedPaths: string[] = [];
  const ranges: string[] = [];
  const server = await serve((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://site');
    const inSite = pathname.startsWith(below) ? normalize(pathname.slice(below.length)) : undefined;
    if (inSite === undefined || inSite.startsWith('..')) return response.writeHead(404).end();
    requestedPaths.push(inSite);
    if (request.headers.range !== undefined) ranges.push(request.headers.range);
    const path = join(folder, inSite === '.' || inSite.endsWith('/') ? join(inSite, 'index.html') : inSite);
    stat(path).then(
      ({ size }) => {
        const range = rangeOf(request.headers.range, size);
        const { first, last } = range ?? { first: 0, last: size - 1 };
        response.writeHead(range ? 206 : 200, {
          ...headers,
          'content-type': types[extname(path)] ?? 'application/octet-stream',
          'content-length': last - first + 1,
          'accept-ranges': 'bytes',
          ...(range && { 'content-range': `bytes ${first}-${last}/${size}` }),
        });
        if (request.method === 'HEAD') return response.end();
        const stream = createReadStream(path, { start: first, end: last });
        if (held === undefined || extname(path) !== '.gguf') stream.pipe(response);
        else Readable.from(heldParts(stream, held)).pipe(response);
      },
      () => response.writeHead(404).end(),
    );
  });
  return { ...server, url: `${server.url}${below}`, requestedPaths, ranges };
}
