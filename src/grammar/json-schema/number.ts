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
import type { Rules } from '../ebnf/rules.ts';
import { type Automaton, both, isNever, not, toAutomaton } from '../regex/automaton.ts';
import { writeAutomaton } from '../regex/write.ts';
import { above, decimal, equalTo, magnitude, wholeMagnitude } from './decimal.ts';
import { unsupported } from './refusal.ts';

/** The combined constraints of a number. */
export interface NumberBounds {
  readonly whole: boolean;
  readonly least?: Bound | undefined;
  readonly most?: Bound | undefined;
  readonly factors: readonly number[];
  /** Excluded numbers. */
  readonly excluded: readonly number[];
}

interface Bound {
  readonly value: number;
  readonly included: boolean;
  readonly path: string;
}

/** Decimal digits that a double represents exactly, so that the order of texts equals the order of values. */
const exactDigits = 15;
const mostDigits = 22;
/** Limit of states for remainders. */
const mostRemainders = 150;
const mostListed = 500;

/** @returns undefined when no number matches */
export function writeNumber(rules: Rules, bounds: NumberBounds, path: string): Expression | undefined {
  const { whole, least, most, factors, excluded } = bounds;
  if (!least && !most && factors.length === 0 && excluded.length === 0)
    return rule(whole ? 'integer' : 'number');
  const key = JSON.stringify([
    'number',
    whole,
    least?.value,
    least?.included,
    most?.value,
    most?.included,
    factors,
    excluded,
  ]);
  return rules.shared(key, 'number', () => writeBounded(rules, bounds, path));
}

function writeBounded(rules: Rules, bounds: NumberBounds, path: string): Expression | undefined {
  const { whole, least, most, factors, excluded } = bounds;
  const few = listed(bounds);
  if (few) return few;
  const exact =
    factors.length > 0 || excluded.length > 0 || least?.included === false || most?.included === false;
  const side = (negative: boolean): Automaton => {
    const integers = whole || factors.some((factor) => Number.isInteger(factor));
    let found = toAutomaton(integers ? wholeMagnitude : magnitude);
    // Limit the digits, but leave enough for the digits of a bound.
    const room = exact ? exactDigits : mostDigits;
    found = both(found, toAutomaton(repeat(set([[0x2e, 0x39]]), 1, integers ? room : room + 1)));
    const add = (bound: Bound | undefined, lower: boolean) => {
      if (!bound) return;
      const value = decimal(bound.value);
      // For negative numbers, a smaller magnitude is a larger number.
      const atLeast = lower !== negative;
      if (value.negative !== negative && bound.value !== 0) {
        // A bound with the other sign allows either no or all numbers of this sign.
        if (lower !== value.negative) found = never;
        return;
      }
      found = both(
        found,
        atLeast ? toAutomaton(above(value, bound.included)) : not(toAutomaton(above(value, !bound.included))),
      );
    };
    add(least, true);
    add(most, false);
    if (negative) found = both(found, toAutomaton(above(zero, false)));
    for (const value of excluded) {
      if (value < 0 === negative) found = both(found, not(toAutomaton(equalTo(decimal(value)))));
    }
    for (const factor of factors) found = both(found, multiples(factor, path));
    return found;
  };
  const options: Expression[] = [];
  for (const negative of [false, true]) {
    const found = side(negative);
    if (isNever(found)) continue;
    options.push(sequence(text(negative ? '-' : ''), writeAutomaton(rules, found, empty)));
  }
  return options.length === 0 ? undefined : choice(...options);
}

const zero = { negative: false, whole: '0', fraction: '' };
const never: Automaton = { edges: [[]], accepts: [false] };

/** Multiples of a factor: integer factors by remainders, powers of 1/2 by the last digits. */
function multiples(factor: number, path: string): Automaton {
  if (Number.isInteger(factor) && factor > 0) {
    const zeros = factor.toString().length - factor.toString().replace(/0+$/, '').length;
    const remainders = factor / 10 ** zeros;
    if (remainders * (zeros + 1) <= mostRemainders) return byRemainder(remainders, zeros);
  }
  if (factor > 0 && factor < 1 && Number.isInteger(1 / factor) && Number.isInteger(Math.log2(1 / factor))) {
    return ofBinaryFraction(1 / factor);
  }
  throw unsupported(
    path,
    'multipleOf',
    Number.isInteger(factor)
      ? `a factor of this size can be enforced only if 'minimum' and 'maximum' leave at most ${mostListed} numbers`
      : 'a fraction that floating point cannot represent exactly (0.1, 0.01) has no exact multiples; use integers of ' +
          'the smallest unit instead',
  );
}

/** Multiples of `factor` * 10^`zeros`. A state is a remainder and a count of trailing zeros. */
function byRemainder(factor: number, zeros: number): Automaton {
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
function listed({ least, most, factors, excluded }: NumberBounds): Expression | undefined {
  const [factor] = factors;
  if (factor === undefined || factors.length > 1 || !Number.isInteger(factor) || !least || !most)
    return undefined;
  const first = Math.ceil(least.value / factor);
  const last = Math.floor(most.value / factor);
  if (!(last - first < mostListed) || Math.abs(first * factor) > 1e15 || Math.abs(last * factor) > 1e15)
    return undefined;
  const values = Array.from(
    { length: Math.max(0, last - first + 1) },
    (_, index) => (first + index) * factor,
  ).filter(
    (value) =>
      !excluded.includes(value) &&
      (least.included || value > least.value) &&
      (most.included || value < most.value),
  );
  return choice(...values.map((value) => text(JSON.stringify(value))));
}

function ofBinaryFraction(parts: number): Automaton {
  const places = Math.log2(parts);
  const fractions = Array.from({ length: parts }, (_, index) => (index / parts).toFixed(places).slice(2));
  const zeros = repeat(text('0'), 0, 6);
  const digits = repeat(range('0', '9'), 1);
  return toAutomaton(
    choice(
      digits,
      ...fractions.map((fraction) => {
        const short = fraction.replace(/0+$/, '');
        return sequence(digits, text(`.${short === '' ? '0' : short}`), zeros);
      }),
    ),
  );
}
