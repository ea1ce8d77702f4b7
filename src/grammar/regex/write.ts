import { choice, type Expression, rule, sequence, set } from '../ebnf/expression.ts';
import type { Rules } from '../ebnf/rules.ts';
import { type Automaton, stepsFrom } from './automaton.ts';

/**
 * Writes an automaton as rules, one for each state.
 * @param writeCharacters converts a character set to the expression to write; by default the set itself
 * @param end follows the text
 */
export function writeAutomaton(
  rules: Rules,
  automaton: Automaton,
  end: Expression,
  character: (one: Expression & { kind: 'set' }) => Expression = (one) => one,
): Expression {
  const names = automaton.edges.map(() => rules.reserve('state'));
  for (const [state, name] of names.entries()) {
    const options = stepsFrom(automaton, state).map(([to, ranges]) =>
      sequence(character(set(ranges) as Expression & { kind: 'set' }), rule(names[to] as string)),
    );
    if (automaton.accepts[state]) options.push(end);
    rules.define(name, choice(...options));
  }
  return rule(names[0] as string);
}
