import type { z } from 'zod';
import { Violations } from '../core/violations.ts';

/** @param at where in the body the value stands @throws WireError 400 that names all that is wrong */
export function checked<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  at: readonly string[] = [],
): z.infer<Shape> {
  const result = shape.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  const faults = new Violations();
  for (const issue of result.error.issues) report(issue, at, faults);
  faults.throwAny();
  throw new Error('a check failed without an issue');
}

function report(issue: z.core.$ZodIssue, above: readonly PropertyKey[], faults: Violations): void {
  const path = [...above, ...issue.path];
  if (issue.code === 'invalid_union') {
    // What is wrong inside the alternative that came farthest says more.
    const depth = (issues: readonly z.core.$ZodIssue[]) =>
      Math.max(0, ...issues.map((each) => each.path.length));
    const [best] = issue.errors.filter((each) => depth(each) > 0).sort((a, b) => depth(b) - depth(a));
    if (best) {
      for (const inner of best) report(inner, path, faults);
      return;
    }
  }
  const isRefused = issue.code === 'custom' && issue.params?.['unsupported'] === true;
  faults[isRefused ? 'refuse' : 'add'](path.map(String).join('.'), issue.message);
}
