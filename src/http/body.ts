import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { illFormedNames } from '../words/ill-formed-names.ts';
import { refuseHeavyJson } from './json-limits.ts';
import { HttpError, type Violation } from './error.ts';
import { bodyLimitBytes, type Route } from './route.ts';

/** Reads and checks the JSON body of a route. Refuses with 413, 415 or 400; a 400 names every violation. */
export async function readJsonBody(
  request: Request,
  {
    body: schema,
    bodyOptional,
    looseBody,
    jsonLimitBytes,
  }: Pick<Route, 'bodyOptional' | 'looseBody' | 'jsonLimitBytes'> & { body: z.ZodType },
): Promise<unknown> {
  const given = bodyOptional ? await readBytes(request, jsonLimitBytes) : undefined;
  if (given?.byteLength === 0) {
    refuseForeignPage(request);
    return checked(schema, {});
  }
  requireJsonType(request, looseBody === true);
  refuseEncoded(request);
  const bytes = given ?? (await readBytes(request, jsonLimitBytes));
  refuseHeavyJson(bytes);
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    const why = error instanceof SyntaxError ? error.message.slice(0, 200) : 'it is not UTF-8';
    throw new HttpError(400, 'invalid_json', `The body is not valid JSON: ${why}.`);
  }
  const illFormed = illFormedNames(text, value);
  if (illFormed.length > 0) throw invalidBody(illFormed);
  return checked(schema, value);
}

/** The body of a route with `rawBody`, as it comes. Breaks with a 413 where there is too much of it. */
export function readRawBody(request: Request, limitBytes: number): AsyncIterable<Uint8Array> {
  refuseForeignPage(request);
  refuseEncoded(request);
  return boundedParts(request, limitBytes);
}

/** The body of a route with `textBody`, or its bytes where they are no UTF-8. Refuses with 413 or 415. */
export async function readTextBody(request: Request, limitBytes: number): Promise<string | Uint8Array> {
  refuseForeignPage(request);
  const type = request.headers.get('content-type');
  if (type !== null && !/^(?:text\/plain|application\/toml)\s*(?:;|$)/i.test(type)) {
    const message = `The body must be text: send 'Content-Type: text/plain' (got '${type.slice(0, 80)}').`;
    throw new HttpError(415, 'unsupported_media_type', message);
  }
  refuseEncoded(request);
  const bytes = await readBytes(request, limitBytes);
  return isUtf8(bytes) ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) : bytes;
}

/**
 * Also a guard: a page of another origin can send text/plain, a form or no type at all, but not application/json.
 * @param loose takes those too, but from no page of another origin
 */
function requireJsonType(request: Request, loose: boolean): void {
  const type = request.headers.get('content-type');
  if (/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type ?? '')) return;
  if (
    loose &&
    (type === null || /^(?:application\/x-www-form-urlencoded|text\/plain)\s*(?:;|$)/i.test(type))
  ) {
    refuseForeignPage(request);
    return;
  }
  throw new HttpError(
    415,
    'unsupported_media_type',
    `The body must be JSON: send 'Content-Type: application/json' (got ${type ? `'${type.slice(0, 80)}'` : 'none'}).`,
  );
}

function refuseEncoded(request: Request): void {
  const encoding = request.headers.get('content-encoding');
  if (encoding === null || encoding.toLowerCase() === 'identity') return;
  throw new HttpError(
    415,
    'unsupported_encoding',
    `The body is encoded as '${encoding.slice(0, 80)}'; send it as it is, without Content-Encoding.`,
  );
}

function checked(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  throw invalidBody(result.error.issues.flatMap(violationsOf), result.error.issues.every(isUnsupported));
}

/**
 * Refuses what a page of another origin sends. Only needed where the content type does not guard: a browser sends a
 * POST of the types that forms have, or without a body, to any origin, and says in `Origin` whose page it is.
 */
export function refuseForeignPage(request: Request): void {
  const origin = request.headers.get('origin');
  const crossSite = /^(?:cross|same)-site$/i.test(request.headers.get('sec-fetch-site') ?? '');
  if (!crossSite && (origin === null || origin === new URL(request.url).origin)) return;
  const page = origin === null ? '' : ` '${origin.slice(0, 100)}'`;
  const message = `A page of another origin${page} may not use this host; send the request without Origin.`;
  throw new HttpError(403, 'foreign_origin', message);
}

/** A refusal names no more of them; what checks a body may stop at the next one. */
export const mostViolations = 50;

/** A 400 whose message is every violation. */
export function invalidBody(violations: readonly Violation[], unsupported = false): HttpError {
  const shown = violations.slice(0, mostViolations);
  const message = shown
    .map((one) => (one.path === '' ? one.message : `${one.path}: ${one.message}`))
    .join('; ');
  const more = violations.length > shown.length ? '; and more' : '';
  const param = violations[0]?.path;
  return new HttpError(400, unsupported ? 'unsupported_parameter' : 'invalid_value', `${message}${more}.`, {
    ...(param ? { param } : {}),
    violations: shown,
  });
}

/** Marks an issue about a member that is known but not served. */
export const unsupportedMark = { params: { unsupported: true } };
const isUnsupported = (issue: z.core.$ZodIssue): boolean =>
  issue.code === 'custom' && issue.params?.['unsupported'] === true;

function violationsOf(issue: z.core.$ZodIssue): Violation[] {
  // Of a union, report the branch that came farthest: its issues say what is wrong inside.
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const depth = (issues: readonly z.core.$ZodIssue[]) =>
      issues.reduce((deepest, inner) => Math.max(deepest, inner.path.length), 0);
    // Of two that went equally deep, the one whose first fault is the later element: `[1, 2, -1]` is a list of ids.
    const reached = (issues: readonly z.core.$ZodIssue[]) => Number(issues[0]?.path[0] ?? 0) || 0;
    const inside = issue.errors.filter((issues) => depth(issues) > 0);
    inside.sort((a, b) => depth(b) - depth(a) || reached(b) - reached(a));
    // One of the right type that is merely empty or too long fits better than one with wrong elements.
    const best =
      issue.errors.find(
        (issues) => depth(issues) === 0 && issues.every(({ code }) => code !== 'invalid_type'),
      ) ?? inside[0];
    if (best) {
      return best.flatMap((inner) => violationsOf({ ...inner, path: [...issue.path, ...inner.path] }));
    }
  }
  return [{ path: issue.path.map(String).join('.'), message: issue.message }];
}

async function readBytes(request: Request, limitBytes = bodyLimitBytes): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const part of boundedParts(request, limitBytes)) parts.push(part);
  return Buffer.concat(parts);
}

async function* boundedParts(
  request: Request,
  limitBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const tooLarge = () =>
    new HttpError(413, 'body_too_large', `The body is larger than the limit of ${limitBytes} bytes.`);
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge();
  const reader = request.body?.getReader();
  if (!reader) return;
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.byteLength;
    if (size > limitBytes) throw tooLarge();
    yield part.value;
  }
}
