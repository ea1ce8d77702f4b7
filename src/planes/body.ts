import type { z } from 'zod';
import { Problem, type Violation } from './problem.ts';
import { bodyLimitBytes } from './route.ts';

/**
 * Reads and checks a JSON body. Refuses with 413, 415 or 400; a 400 names every violation.
 * @param optional an empty body, whatever its content type, counts as `{}`
 */
export async function readJsonBody(request: Request, schema: z.ZodType, optional = false): Promise<unknown> {
  const given = optional ? await readBytes(request) : undefined;
  if (given?.byteLength === 0) {
    refuseForeignPage(request);
    return checked(schema, {});
  }
  const type = request.headers.get('content-type');
  // Also a guard: a page of another origin can send text/plain or no type at all, but not application/json.
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type ?? '')) {
    throw new Problem(
      415,
      'unsupported_media_type',
      `The body must be JSON: send 'Content-Type: application/json' (got ${type ? `'${type.slice(0, 80)}'` : 'none'}).`,
    );
  }
  const encoding = request.headers.get('content-encoding');
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw new Problem(
      415,
      'unsupported_encoding',
      `The body is encoded as '${encoding.slice(0, 80)}'; send it as it is, without Content-Encoding.`,
    );
  }
  const bytes = given ?? (await readBytes(request));
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    const why = error instanceof SyntaxError ? error.message.slice(0, 200) : 'it is not UTF-8';
    throw new Problem(400, 'invalid_json', `The body is not valid JSON: ${why}.`);
  }
  return checked(schema, value);
}

function checked(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  throw invalidBody(result.error.issues.flatMap(violationsOf), result.error.issues.every(isUnsupported));
}

/**
 * Refuses what a page of another origin sends. Only needed where the content type does not guard: a browser sends a
 * POST without a body to any origin, and says in `Origin` whose page it is.
 */
export function refuseForeignPage(request: Request): void {
  const origin = request.headers.get('origin');
  if (origin === null || origin === new URL(request.url).origin) return;
  const message = `A page of '${origin.slice(0, 100)}' may not use this host; send the request without Origin.`;
  throw new Problem(403, 'foreign_origin', message);
}

/** A refusal names no more of them; what checks a body may stop at the next one. */
export const mostViolations = 50;

/** A 400 whose message is every violation. */
export function invalidBody(violations: readonly Violation[], unsupported = false): Problem {
  const shown = violations.slice(0, mostViolations);
  const message = shown
    .map((one) => (one.path === '' ? one.message : `${one.path}: ${one.message}`))
    .join('; ');
  const more = violations.length > shown.length ? '; and more' : '';
  const param = violations[0]?.path;
  return new Problem(400, unsupported ? 'unsupported_parameter' : 'invalid_value', `${message}${more}.`, {
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

async function readBytes(request: Request): Promise<Uint8Array> {
  const tooLarge = () =>
    new Problem(413, 'body_too_large', `The body is larger than the limit of ${bodyLimitBytes} bytes.`);
  if (Number(request.headers.get('content-length') ?? 0) > bodyLimitBytes) throw tooLarge();
  const reader = request.body?.getReader();
  if (!reader) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.byteLength;
    if (size > bodyLimitBytes) throw tooLarge();
    chunks.push(part.value);
  }
  return Buffer.concat(chunks);
}
