import type { z } from 'zod';
import { HttpError, type Violation } from './error.ts';

/** A refusal names no more of them; what checks a body may stop at the next one. */
export const maxViolations = 50;

/** A 400 whose message is every violation. */
export function invalidBody(violations: readonly Violation[], unsupported = false): HttpError {
  const shown = violations.slice(0, maxViolations);
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
export const isUnsupported = (issue: z.core.$ZodIssue): boolean =>
  issue.code === 'custom' && issue.params?.['unsupported'] === true;

/** @throws HttpError 400 with every violation */
export function checkBody(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  const issues = result.error.issues.flatMap(leavesOf);
  throw invalidBody(issues.map(violationOf), issues.every(isUnsupported));
}

export const violationOf = ({ path, message }: z.core.$ZodIssue): Violation => ({
  path: path.map(String).join('.'),
  message,
});

/** An issue; of a union, those of the branch that came farthest: they say what is wrong inside. */
export function leavesOf(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
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
    if (best) return best.flatMap((inner) => leavesOf({ ...inner, path: [...issue.path, ...inner.path] }));
  }
  return [issue];
}
