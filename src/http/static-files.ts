import { createHash, randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { HttpError } from './error.ts';

/** Access to the files of a web build. */
export interface PageFiles {
  /** Maps paths such as `/assets/console-a1b2.js` to a value that changes with the version of the file. */
  readonly list: () => ReadonlyMap<string, string>;
  readonly read: (path: string) => Promise<Uint8Array>;
}

interface CachedFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly etag: string;
  gzipBytes?: Uint8Array<ArrayBuffer>;
}

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json',
  wasm: 'application/wasm',
  woff2: 'font/woff2',
  gguf: 'application/octet-stream',
};
const contentTypeOf = (path: string): string =>
  contentTypes[path.slice(path.lastIndexOf('.') + 1)] ?? 'application/octet-stream';

/** Serves files of a web build: from memory, compressed, with entity tags and ranges. */
export class StaticFiles {
  readonly #files: PageFiles;
  readonly #scriptPolicy: string | undefined;
  #paths: ReadonlyMap<string, string>;
  readonly #cached = new Map<string, Promise<CachedFile>>();

  /** @param scriptPolicy Content-Security-Policy of scripts, which applies to workers */
  constructor(files: PageFiles, scriptPolicy?: string) {
    this.#files = files;
    this.#scriptPolicy = scriptPolicy;
    this.#paths = files.list();
  }

  has(path: string): boolean {
    return this.#paths.has(path);
  }

  /**
   * The files belong to one build. Where they were replaced while the host runs, opening a page loads the new ones:
   * call it then.
   */
  refresh(): void {
    const previousPaths = this.#paths;
    this.#paths = this.#files.list();
    for (const path of this.#cached.keys())
      if (this.#paths.get(path) !== previousPaths.get(path)) this.#cached.delete(path);
  }

  async serve(file: string, request: Request): Promise<Response> {
    const cached = await this.read(file);
    const { bytes, etag } = cached;
    const type = contentTypeOf(file);
    const acceptsGzip =
      /\bgzip\b/.test(request.headers.get('accept-encoding') ?? '') && type !== contentTypes['gguf'];
    const range = parseRange(request.headers.get('range'), request.headers.get('if-range'), cached);
    // The compressed bytes need a different tag, so that ranges of the two are not combined.
    const compressed = acceptsGzip && !range ? (cached.gzipBytes ??= gzipSync(bytes)) : undefined;
    const headers: Record<string, string> = {
      'content-type': type,
      etag: compressed ? gzipTag(etag) : etag,
      // The names of assets change with their content.
      'cache-control': file.startsWith('/assets/') ? 'private, max-age=31536000, immutable' : 'no-cache',
      'accept-ranges': 'bytes',
      vary: 'accept-encoding, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      ...(this.#scriptPolicy !== undefined && type.startsWith('text/javascript')
        ? { 'content-security-policy': this.#scriptPolicy }
        : {}),
    };
    if (matchesTag(request.headers.get('if-none-match'), cached))
      return new Response(null, { status: 304, headers });
    const isHead = request.method === 'HEAD';
    if (range === 'none') {
      const rangeErrorHeaders = { ...headers, 'content-range': `bytes */${bytes.length}` };
      return new Response(null, { status: 416, headers: rangeErrorHeaders });
    }
    if (range) {
      const [start, end] = range;
      const rangeHeaders = { ...headers, 'content-range': `bytes ${start}-${end - 1}/${bytes.length}` };
      return createFileResponse(isHead, bytes.subarray(start, end), 206, rangeHeaders);
    }
    if (!compressed) return createFileResponse(isHead, bytes, 200, headers);
    return createFileResponse(isHead, compressed, 200, { ...headers, 'content-encoding': 'gzip' });
  }

  async read(file: string): Promise<CachedFile> {
    let reading = this.#cached.get(file);
    if (!reading) {
      reading = this.#files.read(file).then((read) => {
        const bytes = new Uint8Array(read);
        return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"` };
      });
      this.#cached.set(file, reading);
    }
    try {
      return await reading;
    } catch {
      // The file may be readable again on the next request.
      this.#cached.delete(file);
      const message = `${file} of the host's pages cannot be read; if they were rebuilt, reload the page.`;
      throw new HttpError(503, 'page_unreadable', message, { headers: { 'retry-after': '2' } });
    }
  }
}

const gzipTag = (etag: string): string => `${etag.slice(0, -1)}-gzip"`;

/** Whether the client has the current version, compressed or not; compressing proxies make tags weak. */
const matchesTag = (requestedTag: string | null, { etag }: CachedFile): boolean =>
  (requestedTag ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === gzipTag(etag));

/** A nonce of a Content-Security-Policy. */
export const newNonce = (): string => randomBytes(18).toString('base64url');

const createFileResponse = (
  isHead: boolean,
  bytes: Uint8Array<ArrayBuffer>,
  status: number,
  headers: Readonly<Record<string, string>>,
): Response =>
  new Response(isHead ? null : bytes, {
    status,
    headers: { ...headers, 'content-length': String(bytes.length) },
  });

export const createPageResponse = (
  html: string,
  policy: string,
  status = 200,
  extraHeaders: Readonly<Record<string, string>> = {},
): Response =>
  new Response(html, {
    status,
    headers: {
      'content-type': contentTypes['html'] ?? '',
      'content-security-policy': policy,
      'cache-control': 'no-store',
      vary: 'accept, cookie, authorization',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      ...extraHeaders,
    },
  });

/**
 * Start and exclusive end of a single requested range; multiple ranges are answered with the whole file, as the
 * standard allows.
 */
function parseRange(
  rangeHeader: string | null,
  ifRange: string | null,
  { bytes, etag }: CachedFile,
): readonly [number, number] | 'none' | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(rangeHeader ?? '') ?? [];
  if ((first === '' && last === '') || (ifRange !== null && ifRange !== etag)) return undefined;
  const size = bytes.length;
  if (first === '') return last === '0' ? 'none' : [Math.max(0, size - Number(last)), size];
  const start = Number(first);
  const end = last === '' ? size : Math.min(size, Number(last) + 1);
  return start < end ? [start, end] : 'none';
}
