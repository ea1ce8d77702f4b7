import { choice, type Expression, rule, sequence } from './expression.ts';
import type { GrammarBuilder } from './grammar-builder.ts';

const blockLength = 100;

/**
 * Adds rules for `minCount` to `maxCount` items and a non-empty end. They form a chain, because XGrammar's `{m,n}`
 * takes milliseconds per token when an item is more than a character class.
 * @param maxCount must be finite
 */
export function addCountedItems(
  builder: GrammarBuilder,
  item: Expression,
  minCount: number,
  maxCount: number,
  end: Expression,
): Expression {
  const itemRule = rule(builder.add('item', item));
  const addBlock = () => {
    let rest: Expression = itemRule;
    for (let count = 1; count < blockLength; count++)
      rest = rule(builder.add('block', sequence(itemRule, rest)));
    return rest;
  };
  // Rules by index: at most that many items, then the end.
  const upToRules: Expression[] = [rule(builder.add('end', end))];
  const addAtMost = (count: number): Expression => {
    while (upToRules.length <= count)
      upToRules.push(
        rule(
          builder.add(
            'up_to',
            choice(sequence(itemRule, upToRules.at(-1) as Expression), upToRules[0] as Expression),
          ),
        ),
      );
    return upToRules[count] as Expression;
  };
  const optionalCount = maxCount - minCount;
  const blockRule = minCount >= blockLength || optionalCount >= blockLength ? addBlock() : itemRule;
  let tail = addAtMost(optionalCount % blockLength);
  for (let blocks = 1; blocks <= Math.floor(optionalCount / blockLength); blocks++)
    tail = rule(builder.add('blocks', choice(sequence(blockRule, tail), addAtMost(blockLength - 1))));
  const requiredItems = [
    ...Array<Expression>(Math.floor(minCount / blockLength)).fill(blockRule),
    ...Array<Expression>(minCount % blockLength).fill(itemRule),
  ];
  return sequence(...requiredItems, tail);
}
