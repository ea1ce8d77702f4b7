import {
  choice,
  empty,
  type Expression,
  range,
  repeat,
  rule,
  sequence,
  set,
  text,
} from '../ebnf/expression.ts';
import type { GrammarBuilder } from '../ebnf/grammar-builder.ts';
import {
  type Automaton,
  intersectAutomata,
  acceptsNothing,
  complementAutomaton,
  toAutomaton,
} from '../regex/automaton.ts';
import { writeAutomaton } from '../regex/write-automaton.ts';
import { greaterThan, toDecimal, equalTo, magnitude, integerMagnitude } from './decimal.ts';
import { createUnsupportedError } from './schema-errors.ts';

/** The combined constraints of a number. */
export interface NumberConstraints {
  readonly isInteger: boolean;
  readonly min?: Bound | undefined;
  readonly max?: Bound | undefined;
  readonly factors: readonly number[];
  /** Excluded numbers. */
  readonly excluded: readonly number[];
}

interface Bound {
  readonly value: number;
  readonly isInclusive: boolean;
  readonly path: string;
}

/** Decimal digits that a double represents exactly, so that the order of texts equals the order of values. */
const exactDigits = 15;
const maxDigits = 22;
/** Limit of states for remainders. */
const maxRemainders = 150;
const maxListed = 500;

/** @returns undefined when no number matches */
export function writeNumber(
  builder: GrammarBuilder,
  constraints: NumberConstraints,
  path: string,
): Expression | undefined {
  const { isInteger, min, max, factors, excluded } = constraints;
  if (!min && !max && factors.length === 0 && excluded.length === 0)
    return rule(isInteger ? 'integer' : 'number');
  const key = JSON.stringify([
    'number',
    isInteger,
    min?.value,
    min?.isInclusive,
    max?.value,
    max?.isInclusive,
    factors,
    excluded,
  ]);
  return builder.shared(key, 'number', () => writeConstrained(builder, constraints, path));
}

function writeConstrained(
  builder: GrammarBuilder,
  constraints: NumberConstraints,
  path: string,
): Expression | undefined {
  const { isInteger, min, max, factors, excluded } = constraints;
  const enumerated = listMultiples(constraints);
  if (enumerated) return enumerated;
  const needsExactDigits =
    factors.length > 0 || excluded.length > 0 || min?.isInclusive === false || max?.isInclusive === false;
  const buildSide = (isNegative: boolean): Automaton => {
    const onlyIntegers = isInteger || factors.some((factor) => Number.isInteger(factor));
    let automaton = toAutomaton(onlyIntegers ? integerMagnitude : magnitude);
    // Limit the digits, but leave enough for the digits of a bound.
    const digitLimit = needsExactDigits ? exactDigits : maxDigits;
    automaton = intersectAutomata(
      automaton,
      toAutomaton(repeat(set([[0x2e, 0x39]]), 1, onlyIntegers ? digitLimit : digitLimit + 1)),
    );
    const add = (bound: Bound | undefined, isLowerBound: boolean) => {
      if (!bound) return;
      const value = toDecimal(bound.value);
      // For negative numbers, a smaller magnitude is a larger number.
      const isMagnitudeMinimum = isLowerBound !== isNegative;
      if (value.isNegative !== isNegative && bound.value !== 0) {
        // A bound with the other sign allows either no or all numbers of this sign.
        if (isLowerBound !== value.isNegative) automaton = neverMatches;
        return;
      }
      automaton = intersectAutomata(
        automaton,
        isMagnitudeMinimum
          ? toAutomaton(greaterThan(value, bound.isInclusive))
          : complementAutomaton(toAutomaton(greaterThan(value, !bound.isInclusive))),
      );
    };
    add(min, true);
    add(max, false);
    if (isNegative) automaton = intersectAutomata(automaton, toAutomaton(greaterThan(zero, false)));
    for (const value of excluded) {
      if (value < 0 === isNegative)
        automaton = intersectAutomata(automaton, complementAutomaton(toAutomaton(equalTo(toDecimal(value)))));
    }
    for (const factor of factors) automaton = intersectAutomata(automaton, multiplesOf(factor, path));
    return automaton;
  };
  const options: Expression[] = [];
  for (const isNegative of [false, true]) {
    const automaton = buildSide(isNegative);
    if (acceptsNothing(automaton)) continue;
    options.push(sequence(text(isNegative ? '-' : ''), writeAutomaton(builder, automaton, empty)));
  }
  return options.length === 0 ? undefined : choice(...options);
}

const zero = { isNegative: false, integerPart: '0', fraction: '' };
const neverMatches: Automaton = { edges: [[]], accepts: [false] };

/** Multiples of a factor: integer factors by remainders, powers of 1/2 by the last digits. */
function multiplesOf(factor: number, path: string): Automaton {
  if (Number.isInteger(factor) && factor > 0) {
    const zeros = factor.toString().length - factor.toString().replace(/0+$/, '').length;
    const divisor = factor / 10 ** zeros;
    if (divisor * (zeros + 1) <= maxRemainders) return remainderAutomaton(divisor, zeros);
  }
  if (factor > 0 && factor < 1 && Number.isInteger(1 / factor) && Number.isInteger(Math.log2(1 / factor))) {
    return binaryFractionAutomaton(1 / factor);
  }
  throw createUnsupportedError(
    path,
    'multipleOf',
    Number.isInteger(factor)
      ? `a factor of this size can be enforced only if 'minimum' and 'maximum' leave at most ${maxListed} numbers`
      : 'a fraction that floating point cannot represent exactly (0.1, 0.01) has no exact multiples; use integers of ' +
          'the smallest unit instead',
  );
}

/** Multiples of `factor` * 10^`zeros`. A state is a remainder and a count of trailing zeros. */
function remainderAutomaton(factor: number, zeros: number): Automaton {
  // State 0 is the start. The remainder is that of the number without the counted zeros.
  const stateOf = (remainder: number, count: number) => remainder * (zeros + 1) + count + 1;
  const edgesFrom = (remainder: number, count: number) =>
    Array.from({ length: 10 }, (_, digit) => {
      let to: number;
      if (digit === 0 && count < zeros) to = stateOf(remainder, count + 1);
      else if (digit === 0) to = stateOf((remainder * 10) % factor, count);
      else to = stateOf((remainder * (10 ** (count + 1) % factor) + digit) % factor, 0);
      return { first: 0x30 + digit, last: 0x30 + digit, to };
    });
  const states = Array.from({ length: factor * (zeros + 1) }, (_, state) => ({
    remainder: Math.floor(state / (zeros + 1)),
    count: state % (zeros + 1),
  }));
  // The number 0 needs an extra state, because it has too few trailing zeros.
  const start = edgesFrom(0, 0).map((edge, digit) =>
    digit === 0 ? { ...edge, to: states.length + 1 } : edge,
  );
  return {
    edges: [start, ...states.map(({ remainder, count }) => edgesFrom(remainder, count)), []],
    accepts: [false, ...states.map(({ remainder, count }) => remainder === 0 && count === zeros), true],
  };
}

/** Enumerates the multiples between two bounds; undefined when there are too many. */
function listMultiples({ min, max, factors, excluded }: NumberConstraints): Expression | undefined {
  const [factor] = factors;
  if (factor === undefined || factors.length > 1 || !Number.isInteger(factor) || !min || !max)
    return undefined;
  const first = Math.ceil(min.value / factor);
  const last = Math.floor(max.value / factor);
  if (!(last - first < maxListed) || Math.abs(first * factor) > 1e15 || Math.abs(last * factor) > 1e15)
    return undefined;
  const values = Array.from(
    { length: Math.max(0, last - first + 1) },
    (_, index) => (first + index) * factor,
  ).filter(
    (value) =>
      !excluded.includes(value) &&
      (min.isInclusive || value > min.value) &&
      (max.isInclusive || value < max.value),
  );
  return choice(...values.map((value) => text(JSON.stringify(value))));
}

function binaryFractionAutomaton(parts: number): Automaton {
  const decimalPlaces = Math.log2(parts);
  const fractions = Array.from({ length: parts }, (_, index) =>
    (index / parts).toFixed(decimalPlaces).slice(2),
  );
  const zeros = repeat(text('0'), 0, 6);
  const digits = repeat(range('0', '9'), 1);
  return toAutomaton(
    choice(
      digits,
      ...fractions.map((fraction) => {
        const trimmed = fraction.replace(/0+$/, '');
        return sequence(digits, text(`.${trimmed === '' ? '0' : trimmed}`), zeros);
      }),
    ),
  );
}
