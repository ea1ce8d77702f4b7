import { RE2JS } from 're2js';

/** A pattern that is matched in linear time, because patterns come from strangers. @throws Error where it is none */
export function linearPattern(pattern: string): (text: string) => boolean {
  const expression = RE2JS.compile(pattern);
  return (text) => expression.matcher(text).find();
}

/**
 * What a pattern costs, at most: the length of the program that it becomes. Counted repetitions are written out in it,
 * those of a group with all that is inside.
 */
export function patternCost(pattern: string): number {
  let [sum, product] = [1, 1];
  for (const [, group, least = '0', most = least] of pattern.matchAll(/(\)?)\{(\d+)(?:,(\d*))?\}/g)) {
    const count = Math.max(1, Number(least), Number(most));
    if (group === ')') product *= count;
    else sum += count;
  }
  // The library refuses what repeats more often.
  return pattern.length * sum * Math.min(product, 1000);
}
