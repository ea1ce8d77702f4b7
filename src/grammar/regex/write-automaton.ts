import { choice, type Expression, rule, sequence, set } from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import { type Automaton, transitionsFrom } from './automaton.ts';

/**
 * Writes an automaton as rules, one for each state.
 * @param writeCharacters converts a character set to the expression to write; by default the set itself
 * @param end follows the text
 */
export function writeAutomaton(
  builder: GrammarBuilder,
  automaton: Automaton,
  end: Expression,
  writeCharacters: (characters: Expression & { kind: 'set' }) => Expression = (characters) => characters,
): Expression {
  const names = automaton.edges.map(() => builder.reserve('state'));
  for (const [state, name] of names.entries()) {
    const options = transitionsFrom(automaton, state).map(([to, ranges]) =>
      sequence(writeCharacters(set(ranges) as Expression & { kind: 'set' }), rule(names[to] as string)),
    );
    if (automaton.accepts[state]) options.push(end);
    builder.define(name, choice(...options));
  }
  return rule(names[0] as string);
}
