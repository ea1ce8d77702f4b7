import type { z } from 'zod';
import { HttpError, type Violation } from './error.ts';
import { maxMemberName, splitUnknownMembers } from './schema/strict.ts';

/** Most violations that a refusal lists; body checks may stop at the next one. */
export const maxViolations = 50;

/** A 400 error whose message lists every violation. */
export function invalidBodyError(violations: readonly Violation[], unsupported = false): HttpError {
  const shown = violations.slice(0, maxViolations);
  const message = shown
    .map((violation) =>
      violation.path === '' ? violation.message : `${violation.path}: ${violation.message}`,
    )
    .join('; ');
  const suffix = violations.length > shown.length ? '; and more' : '';
  const param = violations[0]?.path;
  return new HttpError(400, unsupported ? 'unsupported_parameter' : 'invalid_value', `${message}${suffix}.`, {
    ...(param ? { param } : {}),
    violations: shown,
  });
}

/** Marks an issue about a known member that is not supported. */
export const unsupportedIssue = { params: { unsupported: true } };
export const isUnsupported = (issue: z.core.$ZodIssue): boolean =>
  issue.code === 'custom' && issue.params?.['unsupported'] === true;

/** An issue for each unknown member, at the member's own path; zod has one for all of them, at that of their object. */
function toMemberIssues(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code !== 'unrecognized_keys') return [issue];
  // Each costs a search for the nearest known name.
  const keys = issue.keys.slice(0, maxViolations + 1);
  const messages = splitUnknownMembers(issue.message, keys);
  if (!messages) return [issue];
  return keys.map((key, index) => ({
    ...issue,
    path: [...issue.path, key.slice(0, maxMemberName)],
    message: messages[index] ?? issue.message,
  }));
}

/** @throws HttpError 400 with every violation */
export function checkBody(schema: z.ZodType, value: unknown): unknown {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  const issues = result.error.issues.flatMap(leafIssues).flatMap(toMemberIssues);
  throw invalidBodyError(issues.map(toViolation), issues.every(isUnsupported));
}

export const toViolation = ({ path, message }: z.core.$ZodIssue): Violation => ({
  path: path.map(String).join('.'),
  message,
});

/**
 * The leaf issues of an issue. For a union, the issues of the branch that matched furthest, because they say what is
 * wrong inside.
 */
export function leafIssues(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const depth = (issues: readonly z.core.$ZodIssue[]) =>
      issues.reduce((deepest, inner) => Math.max(deepest, inner.path.length), 0);
    // Of two branches with equal depth, the one whose first fault is at a later element: `[1, 2, -1]` is a list of ids.
    const firstFaultIndex = (issues: readonly z.core.$ZodIssue[]) => Number(issues[0]?.path[0] ?? 0) || 0;
    const inside = issue.errors.filter((issues) => depth(issues) > 0);
    inside.sort((a, b) => depth(b) - depth(a) || firstFaultIndex(b) - firstFaultIndex(a));
    // A branch of the right type that is only empty or too long fits better than one with wrong elements.
    const best =
      issue.errors.find(
        (issues) => depth(issues) === 0 && issues.every(({ code }) => code !== 'invalid_type'),
      ) ?? inside[0];
    if (best) return best.flatMap((inner) => leafIssues({ ...inner, path: [...issue.path, ...inner.path] }));
  }
  return [issue];
}
