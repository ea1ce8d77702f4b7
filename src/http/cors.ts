import type { IncomingMessage } from 'node:http';
import { matchesOrigin } from './origin-pattern.ts';
import type { Plane } from './route.ts';
import type { RefusedRequest } from './server.ts';

export interface CorsOptions {
  /** Patterns of the allowed origins. */
  readonly allowedOrigins: readonly string[];
  /** Pages may call the public wires among these planes. */
  readonly planes: readonly Plane[];
  /** Called once for an origin that a browser asked about in vain, for a limited number of origins. */
  readonly onRefused?: (message: string) => void;
}

/** Response headers of the public wires that a page may read, besides those that every page may. */
export const exposedHeaders: readonly string[] = [
  'x-request-id',
  'request-id',
  'retry-after',
  'x-should-retry',
  'x-lathe-dropped-messages',
  'x-lathe-seed',
  'www-authenticate',
  'allow',
];

/** How long a browser may remember the answer to a preflight; Chromium remembers none longer. */
const preflightMaxAgeSeconds = 7200;
const maxReportedOrigins = 16;

/** Decides which pages of other origins may call the public wires, and writes the headers that tell their browsers. */
export class Cors {
  readonly #options: CorsOptions;
  readonly #paths: ReadonlySet<string>;
  readonly #prefixes: readonly string[];
  readonly #methods: string;
  readonly #reported = new Set<string>();

  constructor(options: CorsOptions) {
    this.#options = options;
    const wires = options.planes.filter((plane) => plane.isPublicWire);
    const routes = wires.flatMap((plane) => plane.routes);
    this.#paths = new Set(routes.map(({ path }) => path));
    this.#prefixes = wires.flatMap(({ prefixes }) => prefixes);
    this.#methods = [...new Set(['GET', 'HEAD', ...routes.map(({ method }) => method)])].join(', ');
  }

  /** Whether pages of the origin may call the path. */
  allows(path: string, origin: string): boolean {
    return (
      this.#options.allowedOrigins.some((pattern) => matchesOrigin(pattern, origin)) &&
      this.#isPublicPath(path)
    );
  }

  /** The headers of every response to the request, also of refusals. */
  responseHeaders({ url = '', headers: { origin } }: IncomingMessage): Readonly<Record<string, string>> {
    const { allowedOrigins } = this.#options;
    const path = pathOf(url);
    if (allowedOrigins.length === 0 || !this.#isPublicPath(path)) return {};
    const vary = { vary: 'origin' };
    if (origin === undefined || !this.allows(path, origin)) return vary;
    return {
      ...vary,
      'access-control-allow-origin': allowedOrigins.includes('*') ? '*' : origin,
      'access-control-expose-headers': exposedHeaders.join(', '),
    };
  }

  /** Refuses the preflight of a page that may not call the path. */
  refusePreflight(incoming: IncomingMessage): RefusedRequest | undefined {
    const { url = '', headers } = incoming;
    const path = pathOf(url);
    const { origin } = headers;
    if (!isPreflight(incoming) || origin === undefined || !this.#isPublicPath(path)) return undefined;
    if (this.allows(path, origin)) return undefined;
    const message = foreignOriginMessage(origin, true);
    if (!this.#reported.has(origin) && this.#reported.size < maxReportedOrigins) {
      this.#reported.add(origin);
      this.#options.onRefused?.(message);
    }
    return { status: 403, code: 'foreign_origin', message };
  }

  /** Returns the further headers of the answer to a preflight, which is 204; undefined for other requests. */
  preflightHeaders(incoming: IncomingMessage): Readonly<Record<string, string>> | undefined {
    const { url = '', headers } = incoming;
    if (!isPreflight(incoming) || !this.allows(pathOf(url), headers.origin ?? '')) return undefined;
    const requestHeaders = headers['access-control-request-headers'];
    const isTokenList = requestHeaders !== undefined && /^[\w!#$%&'*+.^`|~, -]+$/.test(requestHeaders);
    return {
      vary: 'origin, access-control-request-headers, access-control-request-private-network',
      'access-control-allow-methods': this.#methods,
      ...(isTokenList ? { 'access-control-allow-headers': requestHeaders } : {}),
      ...(headers['access-control-request-private-network'] === 'true'
        ? { 'access-control-allow-private-network': 'true' }
        : {}),
      'access-control-max-age': String(preflightMaxAgeSeconds),
    };
  }

  /** The message of a refusal of a page of another origin; it names the flag where that would help. */
  refusalMessage(path: string, origin: string | undefined): string {
    return foreignOriginMessage(origin, this.#isPublicPath(path));
  }

  #isPublicPath(path: string): boolean {
    return (
      this.#paths.has(path) ||
      this.#prefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`))
    );
  }
}

/** The message of a refusal of a page of another origin. @param isPublic the page may be allowed to call the path */
export function foreignOriginMessage(origin: string | undefined, isPublic: boolean): string {
  const shown = origin?.slice(0, 100);
  const page = shown === undefined ? '' : ` '${shown}'`;
  // Any page can have the origin `null`, so it cannot be named.
  const name = shown === undefined || shown === 'null' ? 'ORIGIN' : shown;
  const remedy = isPublic
    ? `to allow it, start the host with --allowed-origin ${name}`
    : 'send the request without Origin';
  return `A page of another origin${page} may not use this host; ${remedy}.`;
}

const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' &&
  headers.origin !== undefined &&
  headers['access-control-request-method'] !== undefined;

/** The path of a request target, which may be a whole URL. */
export const pathOf = (target: string): string =>
  target.replace(/^https?:\/\/[^/?#]*/i, '').split('?', 1)[0] ?? '';
