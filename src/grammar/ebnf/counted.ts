import { choice, type Expression, rule, sequence } from './expression.ts';
import type { Rules } from './rules.ts';

const blockLength = 100;

/**
 * Adds rules for `minCount` to `maxCount` items and a non-empty end. They form a chain, because XGrammar's `{m,n}`
 * takes milliseconds per token when an item is more than a character class.
 * @param maxCount must be finite
 */
export function counted(
  rules: Rules,
  item: Expression,
  least: number,
  most: number,
  end: Expression,
): Expression {
  const one = rule(rules.add('item', item));
  const block = () => {
    let rest: Expression = one;
    for (let count = 1; count < blockLength; count++) rest = rule(rules.add('block', sequence(one, rest)));
    return rest;
  };
  // Rules by index: at most that many items, then the end.
  const upTo: Expression[] = [rule(rules.add('end', end))];
  const atMost = (count: number): Expression => {
    while (upTo.length <= count)
      upTo.push(
        rule(rules.add('up_to', choice(sequence(one, upTo.at(-1) as Expression), upTo[0] as Expression))),
      );
    return upTo[count] as Expression;
  };
  const free = most - least;
  const whole = least >= blockLength || free >= blockLength ? block() : one;
  let tail = atMost(free % blockLength);
  for (let blocks = 1; blocks <= Math.floor(free / blockLength); blocks++)
    tail = rule(rules.add('blocks', choice(sequence(whole, tail), atMost(blockLength - 1))));
  const needed = [
    ...Array<Expression>(Math.floor(least / blockLength)).fill(whole),
    ...Array<Expression>(least % blockLength).fill(one),
  ];
  return sequence(...needed, tail);
}
