import {
  choice,
  type Expression,
  oneOf,
  optional,
  range,
  repeat,
  sequence,
  text,
} from '../ebnf/expression.ts';

/** The digits before and after the decimal point, without leading and trailing zeros. */
export interface Decimal {
  readonly isNegative: boolean;
  readonly integerPart: string;
  readonly fraction: string;
}

/** The decimal digits of a finite number, from its shortest exact notation. */
export function toDecimal(value: number): Decimal {
  const [mantissa = '', exponent = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const point = Number(exponent) + 1;
  const integerPart = point <= 0 ? '0' : digits.slice(0, point).padEnd(point, '0');
  const fraction = point <= 0 ? '0'.repeat(-point) + digits : digits.slice(point);
  return { isNegative: value < 0, integerPart, fraction: fraction.replace(/0+$/, '') };
}

const digit = range('0', '9');
const digits = repeat(digit, 0);
const anyFraction = optional(sequence(text('.'), repeat(digit, 1)));

/** Non-negative numbers without exponent. */
export const magnitude: Expression = sequence(
  choice(text('0'), sequence(range('1', '9'), digits)),
  anyFraction,
);
export const integerMagnitude: Expression = choice(text('0'), sequence(range('1', '9'), digits));

/** Magnitudes above a bound, and the bound itself if inclusive. May also match texts that are not magnitudes. */
export function greaterThan({ integerPart, fraction }: Decimal, isInclusive: boolean): Expression {
  const options: Expression[] = [
    // More digits before the decimal point.
    sequence(range('1', '9'), repeat(digit, integerPart.length), anyFraction),
    ...greaterDigits(integerPart).map((beginning) => sequence(beginning, anyFraction)),
  ];
  const equal = sequence(text(integerPart), text('.'));
  for (const [index, character] of Array.from(fraction).entries()) {
    if (character === '9') continue;
    options.push(sequence(equal, text(fraction.slice(0, index)), digitAbove(character), digits));
  }
  const tail = isInclusive ? digits : sequence(digits, range('1', '9'), digits);
  if (fraction !== '') options.push(sequence(equal, text(fraction), tail));
  else if (isInclusive) options.push(sequence(text(integerPart), anyFraction));
  else options.push(sequence(equal, tail));
  return choice(...options);
}

/** Larger integers with the same number of digits. */
function greaterDigits(integerPart: string): Expression[] {
  return Array.from(integerPart).flatMap((character, index) =>
    character === '9'
      ? []
      : [
          sequence(
            text(integerPart.slice(0, index)),
            digitAbove(character),
            repeat(digit, integerPart.length - index - 1, integerPart.length - index - 1),
          ),
        ],
  );
}

const digitAbove = (character: string): Expression => oneOf('0123456789'.slice(Number(character) + 1));

/** All notations of a magnitude. */
export const equalTo = ({ integerPart, fraction }: Decimal): Expression =>
  fraction === ''
    ? sequence(text(integerPart), optional(sequence(text('.'), repeat(text('0'), 1))))
    : sequence(text(`${integerPart}.${fraction}`), repeat(text('0'), 0));
