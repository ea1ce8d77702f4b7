import { RE2JS } from 're2js';

/** Compiles an untrusted pattern to a matcher with linear running time. @throws Error when the pattern is invalid */
export function compileLinearPattern(pattern: string): (text: string) => boolean {
  const expression = RE2JS.compile(pattern);
  return (text) => expression.matcher(text).find();
}

/**
 * Upper bound of a pattern's cost: the length of its compiled program, in which counted repetitions are expanded,
 * including the content of repeated groups.
 */
export function computePatternCost(pattern: string): number {
  let [sum, product] = [1, 1];
  for (const [, group, min = '0', max = min] of pattern.matchAll(/(\)?)\{(\d+)(?:,(\d*))?\}/g)) {
    const count = Math.max(1, Number(min), Number(max));
    if (group === ')') product *= count;
    else sum += count;
  }
  // The library refuses more than 1000 repetitions.
  return pattern.length * sum * Math.min(product, 1000);
}
