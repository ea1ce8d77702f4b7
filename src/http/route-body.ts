import { isUtf8 } from 'node:buffer';
import {
  boundedChunks,
  type JsonRules,
  parseJson,
  readBytes,
  refuseEncoded,
  requireJsonType,
} from './body.ts';
import { foreignOriginMessage } from './cors.ts';
import { HttpError } from './error.ts';
import type { Exchange } from './exchange.ts';
import { isOriginOf } from './own-origin.ts';
import { bodyLimitBytes, type Route } from './route.ts';
import { checkBody } from './violations.ts';

/** JSON rules of all routes of the host. */
export const jsonRules: JsonRules = {
  maxDepth: 200,
  maxValues: 1_000_000,
  countsElements: false,
  codes: { depth: 'nested_too_deep', encoding: 'unsupported_encoding' },
  refuse: (...about) => new HttpError(...about),
};

/** Reads and validates the JSON body of a route. Throws a 413, a 415, or a 400 that names every violation. */
export async function readRouteBody(
  exchange: Exchange,
  {
    body: schema,
    isBodyOptional: bodyOptional,
    acceptsLooseContentType: looseBody,
    jsonLimitBytes = bodyLimitBytes,
  }: Route,
): Promise<unknown> {
  if (!schema) return undefined;
  const bytesRead = bodyOptional ? await readBytes(exchange, jsonLimitBytes, jsonRules) : undefined;
  if (bytesRead?.byteLength === 0) {
    refuseForeignPage(exchange);
    return checkBody(schema, {});
  }
  if (looseBody && isLooseType(exchange.header('content-type'))) {
    refuseForeignPage(exchange);
    refuseEncoded(exchange, jsonRules);
  } else requireJsonType(exchange, jsonRules);
  const bytes = bytesRead ?? (await readBytes(exchange, jsonLimitBytes, jsonRules));
  return checkBody(schema, parseJson(bytes, jsonRules).value);
}

/** Whether the content type is one that curl and fetch send by default. */
const isLooseType = (type: string | undefined): boolean =>
  type === undefined || /^(?:application\/x-www-form-urlencoded|text\/plain)\s*(?:;|$)/i.test(type);

/** The body of a route with `rawBody`, in chunks. Iteration throws a 413 when it exceeds the limit. */
export function readRawBody(exchange: Exchange, limitBytes: number): AsyncIterable<Uint8Array> {
  refuseForeignPage(exchange);
  refuseEncoded(exchange, jsonRules);
  return boundedChunks(exchange, limitBytes);
}

/** The body of a route with `textBody`, or its bytes where they are not UTF-8. Throws a 413 or 415. */
export async function readTextBody(exchange: Exchange, limitBytes: number): Promise<string | Uint8Array> {
  refuseForeignPage(exchange);
  const type = exchange.header('content-type');
  if (type !== undefined && !/^(?:text\/plain|application\/toml)\s*(?:;|$)/i.test(type)) {
    const message = `The body must be text: send 'Content-Type: text/plain' (got '${type.slice(0, 80)}').`;
    throw new HttpError(415, 'unsupported_media_type', message);
  }
  refuseEncoded(exchange, jsonRules);
  const bytes = await readBytes(exchange, limitBytes, jsonRules);
  return isUtf8(bytes) ? bytes.toString('utf8') : bytes;
}

/**
 * Refuses requests from pages of another origin. Only needed where the content type does not protect: a browser sends a
 * POST with a form's content type, or without a body, to any origin, and names the page's origin in `Origin`.
 */
export function refuseForeignPage({ header, url, path, cors }: Exchange): void {
  const origin = header('origin');
  const crossSite = /^(?:cross|same)-site$/i.test(header('sec-fetch-site') ?? '');
  if (!crossSite && (origin === undefined || isOriginOf(origin, new URL(url()).host))) return;
  if (origin !== undefined && cors?.allows(path, origin)) return;
  const message = cors?.refusalMessage(path, origin) ?? foreignOriginMessage(origin, false);
  throw new HttpError(403, 'foreign_origin', message);
}
