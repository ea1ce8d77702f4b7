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
  readonly negative: boolean;
  readonly whole: string;
  readonly fraction: string;
}

/** The decimal digits of a finite number, from its shortest exact notation. */
export function decimal(value: number): Decimal {
  const [mantissa = '', exponent = '0'] = Math.abs(value).toExponential().split('e');
  const digits = mantissa.replace('.', '');
  const point = Number(exponent) + 1;
  const whole = point <= 0 ? '0' : digits.slice(0, point).padEnd(point, '0');
  const fraction = point <= 0 ? '0'.repeat(-point) + digits : digits.slice(point);
  return { negative: value < 0, whole, fraction: fraction.replace(/0+$/, '') };
}

const digit = range('0', '9');
const digits = repeat(digit, 0);
const anyFraction = optional(sequence(text('.'), repeat(digit, 1)));

/** Non-negative numbers without exponent. */
export const magnitude: Expression = sequence(
  choice(text('0'), sequence(range('1', '9'), digits)),
  anyFraction,
);
export const wholeMagnitude: Expression = choice(text('0'), sequence(range('1', '9'), digits));

/** Magnitudes above a bound, and the bound itself if inclusive. May also match texts that are not magnitudes. */
export function above({ whole, fraction }: Decimal, included: boolean): Expression {
  const options: Expression[] = [
    // More digits before the decimal point.
    sequence(range('1', '9'), repeat(digit, whole.length), anyFraction),
    ...larger(whole).map((beginning) => sequence(beginning, anyFraction)),
  ];
  const equal = sequence(text(whole), text('.'));
  for (const [index, character] of Array.from(fraction).entries()) {
    if (character === '9') continue;
    options.push(sequence(equal, text(fraction.slice(0, index)), after(character), digits));
  }
  const tail = included ? digits : sequence(digits, range('1', '9'), digits);
  if (fraction !== '') options.push(sequence(equal, text(fraction), tail));
  else if (included) options.push(sequence(text(whole), anyFraction));
  else options.push(sequence(equal, tail));
  return choice(...options);
}

/** Larger integers with the same number of digits. */
function larger(whole: string): Expression[] {
  return Array.from(whole).flatMap((character, index) =>
    character === '9'
      ? []
      : [
          sequence(
            text(whole.slice(0, index)),
            after(character),
            repeat(digit, whole.length - index - 1, whole.length - index - 1),
          ),
        ],
  );
}

const after = (character: string): Expression => oneOf('0123456789'.slice(Number(character) + 1));

/** All notations of a magnitude. */
export const equalTo = ({ whole, fraction }: Decimal): Expression =>
  fraction === ''
    ? sequence(text(whole), optional(sequence(text('.'), repeat(text('0'), 1))))
    : sequence(text(`${whole}.${fraction}`), repeat(text('0'), 0));
