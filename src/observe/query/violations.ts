import type { z } from 'zod';
import { nearestWord } from '../../words/nearest.ts';
import { ObserveError, type ObserveViolation } from '../errors.ts';
import { aggregate, condition, grouping, observeQuery, ordering } from './shape.ts';

/** Maximum number of violations in an error. */
const maxViolations = 50;

/** @returns `where[0].value` */
const pathOf = (path: readonly PropertyKey[]): string =>
  path
    .map((part, n) => (typeof part === 'number' ? `[${part}]` : `${n > 0 ? '.' : ''}${String(part)}`))
    .join('');

const members = {
  '': Object.keys(observeQuery.shape),
  where: Object.keys(condition.shape),
  group_by: Object.keys(grouping.options[1].shape),
  aggregate: Object.keys(aggregate.shape),
  order_by: Object.keys(ordering.shape),
};

function unknownMembers(path: readonly PropertyKey[], names: readonly string[]): ObserveViolation[] {
  const known = members[String(path[0] ?? '') as keyof typeof members] ?? [];
  return names.slice(0, maxViolations).map((name) => {
    const near = nearestWord(name, known);
    const hint = near === undefined ? `: expected ${known.join(', ')}` : ` (did you mean '${near}'?)`;
    return { path: pathOf([...path, name.slice(0, 80)]), message: `is not a known member${hint}` };
  });
}

/** Converts a zod issue to violations with paths. */
export function toViolations(issue: z.core.$ZodIssue): ObserveViolation[] {
  if (issue.code === 'unrecognized_keys') return unknownMembers(issue.path, issue.keys);
  const branchIssues = issue.code === 'invalid_union' ? nearestBranch(issue.errors) : undefined;
  if (branchIssues)
    return branchIssues.flatMap((one) => toViolations({ ...one, path: [...issue.path, ...one.path] }));
  return [{ path: pathOf(issue.path), message: issue.message }];
}

/** Issues of the union branch whose outer shape the value has; undefined if no branch fits. */
function nearestBranch(
  branches: readonly (readonly z.core.$ZodIssue[])[],
): readonly z.core.$ZodIssue[] | undefined {
  const hasShape = (issues: readonly z.core.$ZodIssue[]): boolean =>
    issues.every((issue) => {
      if (issue.path.length > 0) return true;
      if (issue.code === 'invalid_union') return nearestBranch(issue.errors) !== undefined;
      return issue.code !== 'invalid_type';
    });
  return branches.find((issues) => issues.length > 0 && hasShape(issues));
}

export function invalidQuery(violations: readonly ObserveViolation[]): ObserveError {
  const reported = violations.slice(0, maxViolations);
  const message = reported
    .map(({ path, message: what }) => (path === '' ? what : `${path}: ${what}`))
    .join('; ');
  const more = violations.length > reported.length ? '; and more' : '';
  return new ObserveError('invalid', 'invalid_query', `${message}${more}.`, { violations: reported });
}
