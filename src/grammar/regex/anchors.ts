import { GrammarError } from '../types.ts';
import { choice, empty, type Expression, repeat, sequence } from '../ebnf/expression.ts';

/** Limit of expression nodes after rewriting a pattern with anchors. Every use of a shared node counts. */
const maxNodes = 100_000;

interface Language {
  readonly expression: Expression;
  readonly isNullable: boolean;
  readonly nodes: number;
}

/**
 * What a part of a pattern matches, depending on its anchors: a language for each pair of `isFirst` (the match must be
 * at the start of the text) and `isLast` (it must be at the end). A pair that cannot match is absent.
 */
export type AnchoredPart = readonly Branch[];

interface Branch extends Language {
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

const pairs = [
  [false, false],
  [true, false],
  [false, true],
  [true, true],
] as const;

const emptyLanguage: Language = { expression: empty, isNullable: true, nodes: 1 };

/** `^` */
export const startAnchor: AnchoredPart = [{ ...emptyLanguage, isFirst: true, isLast: false }];
/** `$` */
export const endAnchor: AnchoredPart = [{ ...emptyLanguage, isFirst: false, isLast: true }];

/** Creates a part without anchors. */
export const unanchored = (expression: Expression): AnchoredPart => [
  { ...measure(expression), isFirst: false, isLast: false },
];

/** The expression of a part without anchors; undefined when it has anchors. */
export const expressionWithoutAnchors = (part: AnchoredPart): Expression | undefined =>
  part.length === 1 && part[0] && !part[0].isFirst && !part[0].isLast ? part[0].expression : undefined;

export function alternation(parts: readonly AnchoredPart[]): AnchoredPart {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  return mergeBranches(parts.flat());
}

export function concatenation(left: AnchoredPart, right: AnchoredPart): AnchoredPart {
  const branches: Branch[] = [];
  for (const one of left) {
    for (const other of right) {
      // Everything before `^` and everything after `$` must be empty.
      if (other.isFirst && !one.isNullable) continue;
      if (one.isLast && !other.isNullable) continue;
      const language = concatenate(other.isFirst ? undefined : one, one.isLast ? undefined : other);
      branches.push({
        ...language,
        isFirst: one.isFirst || other.isFirst,
        isLast: one.isLast || other.isLast,
      });
    }
  }
  return mergeBranches(branches);
}

/** Repeats a part with anchors. Only the first and the last non-empty copies can use the anchors. */
export function repetition(part: AnchoredPart, min: number, max: number): AnchoredPart {
  const branchOf = (isFirst: boolean, isLast: boolean) =>
    part.find((one) => one.isFirst === isFirst && one.isLast === isLast);
  const [free, first, last, both] = [
    branchOf(false, false),
    branchOf(true, false),
    branchOf(false, true),
    branchOf(true, true),
  ];
  const branches: Branch[] = [];
  const add = (language: Language | undefined, isFirst: boolean, isLast: boolean) => {
    if (language) branches.push({ ...language, isFirst, isLast });
  };
  /** Copies without anchors in addition to `others`. Empty copies may fill up the minimum count. */
  const freeCopies = (others: number, spare: readonly (Language | undefined)[]) => {
    const least = spare.some((one) => one?.isNullable) ? 0 : Math.max(0, min - others);
    return repeatLanguage(free, least, max - others);
  };
  add(repeatLanguage(free, min, max), false, false);
  add(sequenceOf(first, freeCopies(1, [free, first])), true, false);
  add(sequenceOf(freeCopies(1, [free, last]), last), false, true);
  add(sequenceOf(sequenceOf(first, freeCopies(2, [free, first, last])), last), true, true);
  if (max >= 1 && (min <= 1 || [free, first, last].some((one) => one?.isNullable))) add(both, true, true);
  // All copies are empty, so `$` may come before `^`.
  const isEmptyAt = (one: Language | undefined) => one?.isNullable === true || both?.isNullable === true;
  if (max >= 2 && isEmptyAt(first) && isEmptyAt(last)) add(emptyLanguage, true, true);
  return mergeBranches(branches);
}

/** @param surroundings added before a match that need not be at the start, and after one that need not be at the end */
export const toExpressions = (part: AnchoredPart, surroundings: Expression): Expression[] =>
  part.map(({ expression, isFirst, isLast }) =>
    sequence(isFirst ? empty : surroundings, expression, isLast ? empty : surroundings),
  );

/** Merges branches to one for each pair, and removes duplicate languages. */
function mergeBranches(branches: readonly Branch[]): AnchoredPart {
  return pairs.flatMap(([isFirst, isLast]): Branch[] => {
    const matching = branches.filter((one) => one.isFirst === isFirst && one.isLast === isLast);
    const languages = [...new Map(matching.map((one) => [one.expression, one])).values()];
    const [first] = languages;
    if (!first || languages.length === 1) return first ? [first] : [];
    const nodes = countNodes(languages);
    const isNullable = languages.some((one) => one.isNullable);
    const expression = choice(...languages.map((one) => one.expression));
    return [{ expression, isNullable, nodes, isFirst, isLast }];
  });
}

function concatenate(left: Language | undefined, right: Language | undefined): Language {
  if (!left || !right || isEmpty(left) || isEmpty(right)) {
    const nonEmpty = [left, right].find((one) => one && !isEmpty(one));
    return nonEmpty ?? emptyLanguage;
  }
  return {
    expression: sequence(left.expression, right.expression),
    isNullable: left.isNullable && right.isNullable,
    nodes: countNodes([left, right]),
  };
}

const isEmpty = ({ expression }: Language): boolean => expression.kind === 'text' && expression.text === '';

const sequenceOf = (left: Language | undefined, right: Language | undefined): Language | undefined =>
  left && right && concatenate(left, right);

function repeatLanguage(language: Language | undefined, min: number, max: number): Language | undefined {
  if (max < min) return undefined;
  if (!language) return min === 0 ? emptyLanguage : undefined;
  return {
    expression: repeat(language.expression, min, max),
    isNullable: min === 0 || language.isNullable,
    nodes: countNodes([language]),
  };
}

function countNodes(languages: readonly Language[]): number {
  const nodes = languages.reduce((sumNodes, one) => sumNodes + one.nodes, 1);
  if (nodes <= maxNodes) return nodes;
  throw new GrammarError(
    'grammar_too_complex',
    "a pattern has too many '^' and '$' for its length; remove those that are not needed",
  );
}

function measure(expression: Expression): Language {
  const of = (parts: readonly Expression[]) => parts.map(measure);
  switch (expression.kind) {
    case 'text':
      return { expression, isNullable: expression.text === '', nodes: 1 };
    case 'sequence': {
      const parts = of(expression.parts);
      return { expression, isNullable: parts.every((one) => one.isNullable), nodes: sumNodes(parts) };
    }
    case 'choice': {
      const options = of(expression.options);
      return { expression, isNullable: options.some((one) => one.isNullable), nodes: sumNodes(options) };
    }
    case 'repeat': {
      const [one] = of([expression.of]);
      const isNullable = expression.min === 0 || one?.isNullable === true;
      return { expression, isNullable, nodes: (one?.nodes ?? 0) + 1 };
    }
    default:
      return { expression, isNullable: false, nodes: 1 };
  }
}

const sumNodes = (languages: readonly Language[]): number =>
  languages.reduce((all, { nodes }) => all + nodes, 1);
